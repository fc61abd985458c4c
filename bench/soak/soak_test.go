package main

import (
	"testing"

	"github.com/clusterset-dns/multicluster/bench/soak/oracle"
)

func TestMemoryIsLevelWithinItsBounds(t *testing.T) {
	begin := memory{heap: 1000, goroutines: 20}
	for want, end := range map[string]memory{
		"":                                   {heap: 1150, goroutines: 25},
		"the heap is 1.16 times what it was": {heap: 1160, goroutines: 20},
		"there are 6 goroutines more":        {heap: 500, goroutines: 26},
	} {
		if got := level(begin, end); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestWrongAnswersAreCounted(t *testing.T) {
	var w wrongs
	for _, kind := range []oracle.Kind{oracle.Stale, oracle.Stale, oracle.Torn} {
		w.add(&oracle.Wrong{Kind: kind})
	}
	if got, want := w.String(), "3, 2 stale, 1 torn"; got != want || !w.any() || (&wrongs{}).any() {
		t.Errorf("%q, want %q", got, want)
	}
}
