// Command clusterset measures clusters and their controllers, all on this machine: each cluster is an etcd, a kube-apiserver and a
// multicluster-controller under its shipped rights. It runs from the project's top folder, in one of two forms.
//
// `clusterset` (make bench-clusterset) has three clusters, and writes docs/results/clusterset.txt:
//
//  1. A small clusterset, idle: from the creation of a ServiceExport until CoreDNS in another cluster has its name.
//  2. Services of one cluster under changes of endpoints: from the change until the other cluster's slice has it.
//  3. A big clusterset, each Service exported by all three clusters: the first sync, memory, and the writes of a restart.
//
// `clusterset many` (make bench-100, make bench-scale) has one cluster and the simulated API servers of its peers, and writes
// docs/results/many.txt. It adds the rows of worlds without shared names to scale.csv.
//
//	bare client ──▶ API server of this cluster        floor: the same writes, with nothing to read and nothing to decide
//	controller  ──▶ API server of this cluster        first sync, idle, changes, outages of peers, restart
//	      ▲
//	      └── watches of 3 × 99 resources ── simulated peers (in this process)
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

// benchmark is one of the two forms.
type benchmark interface {
	flags(f *flag.FlagSet)
	run(ctx context.Context) (title string, rows []row)
}

func main() {
	var b benchmark = &three{}
	name, args := "clusterset.txt", os.Args[1:]
	if len(args) > 0 && args[0] == "many" {
		b, name, args = &many{}, "many.txt", args[1:]
	}
	flags := flag.NewFlagSet("clusterset", flag.ExitOnError)
	b.flags(flags)
	out := flags.String("out", filepath.Join("docs", "results", name), "the file for the results; none if empty")
	_ = flags.Parse(args) // ends the program on an error
	measure.Main("clusterset", func(ctx context.Context) {
		title, rows := b.run(ctx)
		text := report(measure.Machine()+title, rows)
		fmt.Print("\n", text)
		if *out == "" {
			return
		}
		measure.Check(os.WriteFile(*out, []byte(text), 0o644))
		if m, is := b.(*many); is && m.world.Shared == 0 {
			measure.Check(record(filepath.Join(filepath.Dir(*out), "scale.csv"), m.world, rows))
		}
	})
}

// row is one line of the results. A goal is the most that is wanted.
type row struct {
	what string
	got  float64
	unit string
	goal *float64
}

// to returns the row with a goal.
func (r row) to(most float64) row {
	r.goal = &most
	return r
}

func report(title string, rows []row) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	reached, goals := 0, 0
	head, rest := "what\tmeasured\n", ""
	if slices.ContainsFunc(rows, func(r row) bool { return r.goal != nil }) {
		head, rest = "what\tmeasured\tto reach\t\n", "\t"
	}
	_, _ = fmt.Fprintf(table, "%s\n\n%s", title, head) // a Builder has no errors
	for _, r := range rows {
		verdict := rest
		if r.goal != nil {
			goals++
			verdict = fmt.Sprintf("\t%g %s\tnot reached: %.2f x", *r.goal, r.unit, r.got / *r.goal)
			if r.got <= *r.goal {
				reached++
				verdict = fmt.Sprintf("\t%g %s\treached", *r.goal, r.unit)
			}
		}
		_, _ = fmt.Fprintf(table, "%s\t%s %s%s\n", r.what, figure(r.got), r.unit, verdict)
	}
	_ = table.Flush()
	if goals > 0 {
		_, _ = fmt.Fprintf(&text, "\n%d of %d goals are reached.\n", reached, goals)
	}
	return text.String()
}

// figure is a number with four digits or more, without an exponent.
func figure(number float64) string {
	if math.Abs(number) >= 1000 {
		return fmt.Sprintf("%.0f", number)
	}
	return fmt.Sprintf("%.4g", number)
}

// record puts the rows of a run in the place of those of an earlier run with as many clusters: clusters, names that the others export,
// what, measured, unit.
func record(path string, w World, rows []row) error {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	all, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	size := strconv.Itoa(w.Peers + 1)
	all = slices.DeleteFunc(all, func(line []string) bool { return line[0] == size })
	for _, r := range rows {
		all = append(all, []string{size, strconv.Itoa(w.Imports()), r.what, strconv.FormatFloat(r.got, 'g', 4, 64), r.unit})
	}
	slices.SortStableFunc(all, func(a, b []string) int { return cmp.Or(len(a[0])-len(b[0]), strings.Compare(a[0], b[0])) })
	var out bytes.Buffer
	if err := csv.NewWriter(&out).WriteAll(all); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// part shows what is done and how long it took.
func part(what string, do func()) {
	fmt.Printf("%-90s", what+" ...")
	began := time.Now()
	do()
	fmt.Printf(" %6.1f s\n", time.Since(began).Seconds())
}

// wait polls a condition, and shows what is missing now and then.
func wait(ctx context.Context, what string, every time.Duration, condition func() error) error {
	shown := time.Now()
	err := measure.Until(ctx, every, func() error {
		err := condition()
		if err != nil && time.Since(shown) > 10*time.Second {
			shown = time.Now()
			fmt.Printf("  %s: %v\n", what, err)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}
