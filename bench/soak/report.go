package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/clusterset-dns/multicluster/bench/measure"
	"github.com/clusterset-dns/multicluster/bench/soak/oracle"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// counts are of changes and questions in some time.
type counts struct {
	time             time.Duration
	changed, queries int64
}

func (s *soak) count() counts { return counts{s.now(), s.written.Load(), s.asked.Load()} }

func (c counts) minus(d counts) counts {
	return counts{c.time - d.time, c.changed - d.changed, c.queries - d.queries}
}

func (c counts) plus(d counts) counts {
	return counts{c.time + d.time, c.changed + d.changed, c.queries + d.queries}
}

func (c counts) String() string {
	seconds := max(c.time.Seconds(), 1e-9)
	return fmt.Sprintf("%.0f changes/s, %.0f questions/s", float64(c.changed)/seconds, float64(c.queries)/seconds)
}

func (s *soak) say(format string, args ...any) {
	fmt.Printf("%5.0f s  %s\n", s.now().Seconds(), fmt.Sprintf(format, args...))
}

// progress says a line every ten seconds.
func (s *soak) progress(ctx context.Context) {
	s.phase.Store("warming up")
	before := s.count()
	for measure.Pause(ctx, 10*time.Second) == nil {
		m, err := s.server.glance(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.say("CoreDNS does not tell its memory: %v", err)
		}
		now := s.count()
		s.say("%-33s  %s, %s wrong; heap %.1f MiB, resident %.1f MiB", s.phase.Load(), now.minus(before), &s.wrong, mib(m.heap), mib(m.resident))
		before = now
	}
}

// finish shows the results, writes them to the file, and says whether they are good.
func (s *soak) finish(out string) {
	var text strings.Builder
	s.report(&text)
	fmt.Printf("\n%s", text.String())
	if out != "" {
		measure.Check(os.WriteFile(out, []byte(text.String()), 0o644))
	}
	if s.wrong.any() || len(s.faults) > 0 {
		measure.Check(fmt.Errorf("not everything was as it has to be: %w", s.lastWords()))
	}
}

// lastWords is the end of CoreDNS' log, which goes with the cluster's folder.
func (s *soak) lastWords() error {
	return fmt.Errorf("CoreDNS said last:\n%s", kube.Tail(s.server.Log()))
}

func (s *soak) report(w io.Writer) {
	row := func(what, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%-34s %s\n", what, fmt.Sprintf(format, args...))
	}
	_, _ = fmt.Fprintf(w, "%s; everything on one machine\n", measure.Machine())
	imports, endpoints := s.size()
	row("world", "%d imports, %d endpoints", imports, endpoints)
	row("time", "%.0f s, of which %.0f s calm", s.whole.time.Seconds(), s.calmly.time.Seconds())
	row("changes", "%d; %.0f/s while it was calm, of %.0f/s wanted", s.whole.changed, float64(s.calmly.changed)/max(s.calmly.time.Seconds(), 1), float64(perSecond))
	row("questions", "%d, each answer checked; %.0f/s while it was calm", s.whole.queries, float64(s.calmly.queries)/max(s.calmly.time.Seconds(), 1))
	row("", "%d over TCP, %d sent again", s.overTCP.Load(), s.resent.Load())
	row("wrong answers", "%s", &s.wrong)
	row("from a change's end to its answer", "%s (%d changes of one import and one slice, while it was calm)", &s.lag, s.lag.count())
	row("answers that were not the newest", "%.2f%%; since %s (while it was calm)",
		100*float64(s.ages.count())/max(float64(s.calmly.queries), 1), &s.ages)
	for _, d := range disturbances {
		s.reportDisturbance(d.name, row)
	}
	row("heap at the begin and end", "%.2f MiB, %.2f MiB: %.2f times (at most %.2f)", mib(s.begin.heap), mib(s.end.heap),
		float64(s.end.heap)/max(float64(s.begin.heap), 1), heapMost)
	row("goroutines", "%d, %d (at most %d more)", s.begin.goroutines, s.end.goroutines, goroutineMore)
	row("resident", "%.1f MiB, %.1f MiB", mib(s.begin.resident), mib(s.end.resident))
	for _, fault := range s.faults {
		row("FAULT", "%s", fault)
	}
}

func (s *soak) reportDisturbance(name string, row func(what, format string, args ...any)) {
	var inStep, took durations
	for _, h := range s.happened {
		if h.name == name {
			inStep.add(h.inStep)
			took.add(h.took)
		}
	}
	if inStep.count() == 0 {
		row(name, "not in this run")
	} else {
		row(name, "%d times, for %.1f s; in step again %.2f s later, at most %.2f s", inStep.count(), took.quantile(0.5)/1000,
			inStep.quantile(0.5)/1000, inStep.quantile(1)/1000)
	}
}

// durations are many of them, in milliseconds, for quantiles.
type durations struct {
	mu  sync.Mutex
	all []float64
}

func (d *durations) add(one time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, measure.Milliseconds(one))
}

// quantile is what the share q of all does not exceed; 0 of none.
func (d *durations) quantile(q float64) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == 0 {
		return 0
	}
	return measure.Quantile(d.all, q)
}

func (d *durations) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}

func (d *durations) String() string {
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, max %.1f ms", d.quantile(0.5), d.quantile(0.99), d.quantile(1))
}

// wrongs counts wrong answers, and prints the first ones in full.
type wrongs struct {
	mu     sync.Mutex
	total  int
	byKind map[oracle.Kind]int
}

// mostPrinted is how many wrong answers are printed: the others are likely to be alike.
const mostPrinted = 20

func (w *wrongs) add(wrong *oracle.Wrong) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKind == nil {
		w.byKind = map[oracle.Kind]int{}
	}
	w.total++
	w.byKind[wrong.Kind]++
	if w.total <= mostPrinted {
		fmt.Printf("WRONG %v\n", wrong)
	}
}

func (w *wrongs) any() bool { return w.String() != "0" }

// String has the kinds of which there were any.
func (w *wrongs) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprint(w.total)
	for _, kind := range oracle.Kinds {
		if n := w.byKind[kind]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, kind)
		}
	}
	return text
}
