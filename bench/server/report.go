package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// goals are of the project's design: the highest ratios of ours to the others.
var goals = map[string][]goal{
	"A":                            {{of: whoami, most: 1.00}, {of: inTree, most: 0.55}},
	"NXDOMAIN":                     {{of: whoami, most: 1.00}, {of: inTree, most: 0.55}},
	"SRV of a port, with glue":     {{of: whoami, most: 1.10}, {of: inTree, most: 0.55}},
	"SRV of both ports, with glue": {{of: whoami, most: 1.10}, {of: inTree, most: 0.55}},
	"one host of a headless of 50": {{of: whoami, most: 1.10}, {of: inTree, most: 0.55}},
	"headless of 50":               {{of: inTree, most: 0.28}, {of: readyMade, most: 1.15}},
}

var (
	heapGoal   = []goal{{of: inTree, most: 0.7}}
	peakGoal   = []goal{{of: inTree, most: 0.6}, {most: 200}} // the second in MiB
	peakMost   = []goal{{most: 200}}
	firstGoal  = []goal{{of: inTree, most: 0.65}}
	spreadGoal = []goal{{most: 1.10}}
	changeGoal = []goal{{most: 50}}
)

// sections are the table of a run. What was not measured has no row.
func (b *bench) sections() []section {
	at := ", at " + grouped(b.imports.some) + " imports"
	all := []section{
		{title: cpuPerQuery + at, rows: b.ofQuestions(cpuPerQuery, 2, goals)},
		{title: perSecond + at, rows: b.ofQuestions(perSecond, 0, nil)},
		{title: replyBytes, rows: b.ofQuestions(replyBytes, 0, nil)},
		{title: cpuPerQuery + ", through errors, prometheus, loadbalance and cache" + at, rows: b.ofStock()},
		{title: cpuPerQuery + ", by the number of imports", rows: b.bySize()},
		{title: "memory, and time from a server's start to its first answer", rows: b.ofMemory()},
		{title: "one change among " + b.manyImports(), rows: b.ofChanges()},
	}
	for i := range all {
		all[i].rows = slices.DeleteFunc(all[i].rows, row.isEmpty)
	}
	return slices.DeleteFunc(all, func(s section) bool { return len(s.rows) == 0 })
}

// row is the medians of one case.
func (b *bench) row(title, measure, at string, digits int, goals []goal) row {
	return row{title, digits, goals, func(who answerer) float64 { return b.samples.quantile(measure, at, who, 0.5) }}
}

func (b *bench) ofQuestions(measure string, digits int, goals map[string][]goal) (rows []row) {
	for _, q := range b.questions() {
		rows = append(rows, b.row(q.Title, measure, q.Title, digits, goals[q.Title]))
	}
	return rows
}

// ofStock has a row for each question and title.
func (b *bench) ofStock() (rows []row) {
	for _, q := range b.stockQuestions() {
		for _, s := range b.stockSetups(q) {
			rows = append(rows, b.row(strings.TrimPrefix(s.title, inStock), cpuPerQuery, s.title, 2, nil))
		}
	}
	return slices.CompactFunc(rows, func(a, b row) bool { return a.title == b.title })
}

// bySize has, below the figures, the highest of them divided by the lowest.
func (b *bench) bySize() (rows []row) {
	for _, title := range []func(int) string{b.sameTitle, b.ownTitle} {
		lowest, highest := math.Inf(1), math.Inf(-1)
		for _, count := range []int{b.imports.few, b.imports.some, b.imports.many} {
			rows = append(rows, b.row(title(count), cpuPerQuery, title(count), 2, nil))
			v := b.samples.quantile(cpuPerQuery, title(count), ours, 0.5)
			lowest, highest = min(lowest, v), max(highest, v)
		}
		rows = append(rows, row{"  highest/lowest of these", 2, spreadGoal, func(who answerer) float64 {
			if who != ours || lowest > highest {
				return math.NaN()
			}
			return highest / lowest
		}})
	}
	return rows
}

func (b *bench) ofMemory() []row {
	const mib = 1 << 20
	scaled := func(title, measure, at string, by float64, goals []goal) row {
		return row{title, 1, goals, func(who answerer) float64 { return b.samples.quantile(measure, at, who, 0.5) / by }}
	}
	perPiece := func(title, at string, pieces int) row {
		return row{title, 0, heapGoal, func(who answerer) float64 {
			return (b.samples.quantile(heapBytes, at, who, 0.5) - b.samples.quantile(heapBytes, nothing, who, 0.5)) / float64(pieces)
		}}
	}
	imports, pods := b.manyImports(), b.manyPods()
	return []row{
		scaled("heap, MiB, "+nothing, heapBytes, nothing, mib, nil),
		scaled("peak of the process, MiB, "+nothing, peakBytes, nothing, mib, nil),
		perPiece("heap per import, bytes, "+imports, imports, b.imports.many),
		scaled("peak of the process, MiB, "+imports, peakBytes, imports, mib, peakGoal),
		scaled("first answer, s, "+imports, firstAnswer, imports, 1, firstGoal),
		scaled("CPU to the first answer, s, "+imports, cpuToAnswer, imports, 1, nil),
		scaled("peak of the process, MiB, "+listed(imports), peakBytes, listed(imports), mib, peakMost),
		scaled("first answer, s, "+listed(imports), firstAnswer, listed(imports), 1, nil),
		perPiece("heap per endpoint, bytes, "+pods, pods, b.manyHeadless*b.manyEndpoints),
		scaled("peak of the process, MiB, "+pods, peakBytes, pods, mib, nil),
		scaled("first answer, s, "+pods, firstAnswer, pods, 1, nil),
		scaled("CPU to the first answer, s, "+pods, cpuToAnswer, pods, 1, nil),
		scaled("peak of the process, MiB, "+listed(pods), peakBytes, listed(pods), mib, peakMost),
		scaled("first answer, s, "+listed(pods), firstAnswer, listed(pods), 1, nil),
	}
}

func (b *bench) ofChanges() []row {
	p99 := func(measure string) row {
		return row{measure + ", p99", 1, changeGoal, func(who answerer) float64 { return b.samples.quantile(measure, idle, who, 0.99) }}
	}
	return []row{
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
