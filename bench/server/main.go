// Command server measures servers side by side, on real parts and one machine: our plugin, CoreDNS' own kubernetes plugin with its option
// multicluster, whoami as the floor, and a plugin that writes ready-made messages as the best possible. All four are one binary. It
// runs from the project's top folder, by `make bench-server`, and writes docs/results/bench.txt and bench.csv.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

// plan is how much to measure.
type plan struct {
	name    string
	rounds  int           // of each load; the answerers take turns in each
	load    time.Duration // of one answerer in one round: on two cores, about as much of the server's own time
	warmUp  time.Duration // before the first round; long enough to ask everything once
	starts  int           // of each server, where its start is what is measured
	imports struct{ few, some, many int }
	// headless services of some sizes, for questions, and of one size, for memory
	headless, manyHeadless, manyEndpoints int
	changes                               int // that are waited for
	changesPerSecond                      int // beside a load
}

var full = plan{
	name: "full", rounds: 7, load: 2 * time.Second, warmUp: 1500 * time.Millisecond, starts: 5,
	imports:  struct{ few, some, many int }{100, 10_000, 100_000},
	headless: 100, manyHeadless: 2_000, manyEndpoints: 500,
	changes: 200, changesPerSecond: 100,
}

var small = plan{
	name: "quick", rounds: 3, load: 700 * time.Millisecond, warmUp: 500 * time.Millisecond, starts: 1,
	imports:  struct{ few, some, many int }{100, 1_000, 5_000},
	headless: 10, manyHeadless: 100, manyEndpoints: 500,
	changes: 40, changesPerSecond: 100,
}

func main() {
	quick := flag.Bool("quick", false, "small and short: shows that it works, and what the figures look like, not what they are")
	out := flag.String("out", "", "the folder to write bench.txt and bench.csv to; docs/results unless given, and none for a quick run")
	flag.Parse()
	b := &bench{plan: full, program: filepath.Join("bin", "coredns-bench")}
	switch {
	case *quick:
		b.plan = small
	case *out == "":
		*out = filepath.Join("docs", "results")
	}
	measure.Main("bench", func(ctx context.Context) {
		version, err := exec.CommandContext(ctx, b.program, "-version").Output()
		if err != nil {
			measure.Check(fmt.Errorf("ask CoreDNS for its version: %w: run `make bench-server`", err))
		}
		b.title = fmt.Sprintf("%s; %s; %d questions open", measure.Machine(), release(string(version)), window)
		if err := measure.Catch(func() { b.measure(ctx) }); err != nil {
			b.write("") // what was measured until then is still of use, though no result
			measure.Check(err)
		}
		b.write(*out)
	})
}

// release makes one line of «CoreDNS-1.15.0», and a line with the platform, Go's version and the commit.
func release(version string) string {
	parts := strings.Split(strings.Replace(version, "\n", ", ", 1), ", ")
	return strings.Replace(strings.Join(parts[:min(3, len(parts))], ", "), "-", " ", 1)
}

// bench is one run.
type bench struct {
	plan
	program string // the CoreDNS that has all four plugins
	title   string // the machine, and what the figures were measured with
	samples samples
}

// write shows the table, and writes it into the folder unless that is empty.
func (b *bench) write(folder string) {
	text := fmt.Sprintf(`%s
everything on one machine, over UDP on loopback; a %s run: medians of %d rounds of %s, in which the answerers take turns
CPU per query is the server's own user and system time over the queries answered; no goal is judged by rounded figures

%s`, b.title, b.name, b.rounds, b.load, table(b.sections()))
	fmt.Print(text)
	if folder != "" {
		measure.Check(os.WriteFile(filepath.Join(folder, "bench.txt"), []byte(text), 0o644))
		measure.Check(os.WriteFile(filepath.Join(folder, "bench.csv"), b.samples.csv(), 0o644))
	}
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, format+"\n", args...)
}
