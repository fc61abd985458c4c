package main

import (
	"errors"
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
	for _, err := range []error{&oracle.Wrong{Kind: oracle.Stale}, &oracle.Wrong{Kind: oracle.Stale}, &oracle.Wrong{Kind: oracle.Torn}, errors.New("other")} {
		w.add(err)
	}
	if got, want := w.String(), "4, 2 stale, 1 torn, 1 malformed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
