package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/clusterset-dns/multicluster/bench/measure"
	"github.com/clusterset-dns/multicluster/bench/soak/oracle"
)

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
