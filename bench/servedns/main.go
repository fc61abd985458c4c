// Command servedns turns the output of this folder's benchmarks, which measure ServeDNS alone of our plugin and of CoreDNS' own
// kubernetes plugin, into a table of medians and goals:
//
//	go test -run '^$' -bench ServeDNS -benchmem -count 6 ./bench/servedns | go run ./bench/servedns
//
// «benchstat -col /plugin» compares the same output with its confidence.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	f := figures{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		text := lines.Text()
		if strings.HasPrefix(text, "FAIL") || strings.HasPrefix(text, "--- FAIL") {
			return fmt.Errorf("the benchmarks failed: %s", text)
		}
		if err := f.read(text); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if len(f) == 0 {
		return errors.New("no benchmark in the input; want the output of `go test -bench ServeDNS`")
	}
	_, err := fmt.Fprint(out, f.table())
	return err
}

// what is one benchmark: BenchmarkServeDNS/imports=.../question=.../plugin=...
type what struct{ imports, question, plugin string }

const (
	ours   = "ours"
	inTree = "in-tree"
)

// figures are the samples of each benchmark.
type figures map[what]samples

type samples struct{ ns, allocs []float64 }

// line is one of the output. Behind the name is -2 on two cores.
var line = regexp.MustCompile(`^BenchmarkServeDNS/imports=(\d+)/question=(\S+)/plugin=(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op\s+\d+ B/op\s+(\d+) allocs/op`)

// read takes the figures of one line, if it has some.
func (f figures) read(text string) error {
	found := line.FindStringSubmatch(text)
	if found == nil {
		return nil
	}
	w := what{found[1], found[2], found[3]}
	ns, err := strconv.ParseFloat(found[4], 64)
	allocs, err2 := strconv.ParseFloat(found[5], 64)
	f[w] = samples{append(f[w].ns, ns), append(f[w].allocs, allocs)}
	return errors.Join(err, err2)
}

// ns and allocs are medians, NaN of what was not measured.
func (f figures) ns(w what) float64     { return measure.Quantile(f[w].ns, 0.5) }
func (f figures) allocs(w what) float64 { return measure.Quantile(f[w].allocs, 0.5) }

// compared is the number of imports at which both plugins are measured.
const compared = "10000"

// asked are the questions of the table, in its order, as the benchmarks are called.
var asked = []string{"A", "SRV-2-ports", "NXDOMAIN", "headless-10", "headless-50", "headless-100", "headless-200", "host-of-1000"}

// table is the medians of both plugins, then those of ours at several sizes, then the goals.
func (f figures) table() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "question\tours ns\tallocs\tin-tree ns\tallocs\tours / in-tree\t")
	for _, q := range asked {
		our, their := what{compared, q, ours}, what{compared, q, inTree}
		_, _ = fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.3f\t\n", q, f.ns(our), f.allocs(our), f.ns(their), f.allocs(their), f.ns(our)/f.ns(their))
	}
	for _, n := range []string{"100", "100000"} {
		our := what{n, "A", ours}
		_, _ = fmt.Fprintf(w, "A, %s imports\t%.0f\t%.0f\t\t\t\t\n", n, f.ns(our), f.allocs(our))
	}
	_ = w.Flush()
	return text.String() + "\n" + f.goals()
}

// goals says of each goal whether it is reached.
func (f figures) goals() string {
	ratio := func(q string) float64 { return f.ns(what{compared, q, ours}) / f.ns(what{compared, q, inTree}) }
	a := what{compared, "A", ours}
	var text strings.Builder
	for _, goal := range []struct {
		what      string
		got, most float64
	}{
		{"A: allocations", f.allocs(a), 8},
		{"A: time, ours / in-tree", ratio("A"), 1. / 3},
		{"headless of 100: time, ours / in-tree", ratio("headless-100"), 1. / 20},
		{"one host among 1 000: time, to that of A", f.ns(what{compared, "host-of-1000", ours}) / f.ns(a), 1},
	} {
		said := "reached"
		if !(goal.got <= goal.most) { // so that what was not measured is not reached
			said = "MISSED"
		}
		_, _ = fmt.Fprintf(&text, "%-8s %s: %.3g, at most %.3g\n", said, goal.what, goal.got, goal.most)
	}
	return text.String()
}
