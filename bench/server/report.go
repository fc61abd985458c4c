package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/clusterset-dns/multicluster/bench/server/table"
)

// goals are of the project's design: the highest ratios of ours to the others.
var goals = map[string][]table.Goal{
	"A":                            {{Of: table.Whoami, Most: 1.00}, {Of: table.InTree, Most: 0.55}},
	"NXDOMAIN":                     {{Of: table.Whoami, Most: 1.00}, {Of: table.InTree, Most: 0.55}},
	"SRV of a port, with glue":     {{Of: table.Whoami, Most: 1.10}, {Of: table.InTree, Most: 0.55}},
	"SRV of both ports, with glue": {{Of: table.Whoami, Most: 1.10}, {Of: table.InTree, Most: 0.55}},
	"one host of a headless of 50": {{Of: table.Whoami, Most: 1.10}, {Of: table.InTree, Most: 0.55}},
	"headless of 50":               {{Of: table.InTree, Most: 0.28}, {Of: table.ReadyMade, Most: 1.15}},
}

var (
	heapGoal   = []table.Goal{{Of: table.InTree, Most: 0.7}}
	peakGoal   = []table.Goal{{Of: table.InTree, Most: 0.6}}
	spreadGoal = []table.Goal{{Most: 1.10}}
	changeGoal = []table.Goal{{Most: 50}}
)

// sections are the table of a run. What was not measured has no row.
func (b *bench) sections() []table.Section {
	at := ", at " + grouped(b.imports.some) + " imports"
	all := []table.Section{
		{Title: cpuPerQuery + at, Rows: b.ofQuestions(cpuPerQuery, 2, goals)},
		{Title: perSecond + at, Rows: b.ofQuestions(perSecond, 0, nil)},
		{Title: replyBytes, Rows: b.ofQuestions(replyBytes, 0, nil)},
		{Title: cpuPerQuery + ", through errors, prometheus, loadbalance and cache" + at, Rows: b.ofStock()},
		{Title: cpuPerQuery + ", by the number of imports", Rows: b.bySize()},
		{Title: "memory, and time from a server's start to its first answer", Rows: b.ofMemory()},
		{Title: "one change among " + b.manyImports(), Rows: b.ofChanges()},
	}
	for i := range all {
		all[i].Rows = slices.DeleteFunc(all[i].Rows, func(r table.Row) bool { return len(r.Values) == 0 })
	}
	return slices.DeleteFunc(all, func(s table.Section) bool { return len(s.Rows) == 0 })
}

// row is the medians of one case.
func (b *bench) row(title, measure, at string, digits int, goals []table.Goal) table.Row {
	return row(title, digits, goals, func(who table.Who) float64 { return b.samples.Median(measure, at, who) })
}

func row(title string, digits int, goals []table.Goal, value func(table.Who) float64) table.Row {
	values := map[table.Who]float64{}
	for _, who := range answerers {
		values[who] = value(who)
	}
	maps.DeleteFunc(values, func(_ table.Who, v float64) bool { return math.IsNaN(v) })
	return table.Row{Title: title, Digits: digits, Values: values, Goals: goals}
}

func (b *bench) ofQuestions(measure string, digits int, goals map[string][]table.Goal) (rows []table.Row) {
	for _, q := range b.questions() {
		rows = append(rows, b.row(q.title, measure, q.title, digits, goals[q.title]))
	}
	return rows
}

// bySize has, below the figures, the highest of them divided by the lowest.
func (b *bench) bySize() (rows []table.Row) {
	for _, title := range []func(int) string{b.sameTitle, b.ownTitle} {
		lowest, highest := math.Inf(1), math.Inf(-1)
		for _, count := range []int{b.imports.few, b.imports.some, b.imports.many} {
			rows = append(rows, b.row(title(count), cpuPerQuery, title(count), 2, nil))
			v := b.samples.Median(cpuPerQuery, title(count), table.Ours)
			lowest, highest = min(lowest, v), max(highest, v)
		}
		rows = append(rows, row("  highest/lowest of these", 2, spreadGoal, func(who table.Who) float64 {
			if who != table.Ours || lowest > highest {
				return math.NaN()
			}
			return highest / lowest
		}))
	}
	return rows
}

func (b *bench) ofMemory() []table.Row {
	const mib = 1 << 20
	scaled := func(title, measure, at string, by float64, goals []table.Goal) table.Row {
		return row(title, 1, goals, func(who table.Who) float64 { return b.samples.Median(measure, at, who) / by })
	}
	perPiece := func(title, at string, pieces int) table.Row {
		return row(title, 0, heapGoal, func(who table.Who) float64 {
			return (b.samples.Median(heapBytes, at, who) - b.samples.Median(heapBytes, nothing, who)) / float64(pieces)
		})
	}
	imports, pods := b.manyImports(), b.manyPods()
	return []table.Row{
		scaled("heap, MiB, "+nothing, heapBytes, nothing, mib, nil),
		scaled("peak of the process, MiB, "+nothing, peakBytes, nothing, mib, nil),
		perPiece("heap per import, bytes, "+imports, imports, b.imports.many),
		scaled("peak of the process, MiB, "+imports, peakBytes, imports, mib, peakGoal),
		scaled("first answer, s, "+imports, firstAnswer, imports, 1, nil),
		scaled("CPU to the first answer, s, "+imports, cpuToAnswer, imports, 1, nil),
		perPiece("heap per endpoint, bytes, "+pods, pods, b.manyHeadless*b.manyEndpoints),
		scaled("peak of the process, MiB, "+pods, peakBytes, pods, mib, nil),
		scaled("first answer, s, "+pods, firstAnswer, pods, 1, nil),
		scaled("CPU to the first answer, s, "+pods, cpuToAnswer, pods, 1, nil),
	}
}

func (b *bench) ofChanges() []table.Row {
	p99 := func(measure string) table.Row {
		return row(measure+", p99", 1, changeGoal, func(who table.Who) float64 { return b.samples.Quantile(measure, idle, who, 0.99) })
	}
	return []table.Row{
		b.row(sinceDone+", p50", sinceDone, idle, 1, nil), p99(sinceDone),
		b.row(sinceRequest+", p50", sinceRequest, idle, 1, nil), p99(sinceRequest),
		b.row(cpuPerQuery+", of A while nothing changes", cpuPerQuery, quietA, 2, nil),
		b.row(cpuPerQuery+", of A while imports change", cpuPerQuery, changingA, 2, nil),
		b.row("  how many a second", changesDone, changingA, 0, nil),
		b.row(cpuPerChange+", without queries", cpuPerChange, idle, 0, nil),
	}
}

// grouped is a number with its thousands apart.
func grouped(n int) string {
	if n < 10_000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d %03d", n/1000, n%1000)
}
