package main

import (
	"flag"
	"testing"
	"time"
)

const root = "../../.."

var sample = flag.Int("sample", 0, "try so many mutants, others each day")

// A change of the product can take away the text that a mutant replaces: write the mutant for the new text then.
func TestEachMutantFits(t *testing.T) {
	mutants, err := all()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if _, err := m.files(root); err != nil {
			t.Error(err)
		}
	}
}

// CI tries some mutants, to see that stories and histories still find what they found before.
func TestSample(t *testing.T) {
	if *sample == 0 {
		t.Skip("for go test -sample=10")
	}
	mutants, err := all()
	if err != nil {
		t.Fatal(err)
	}
	var chosen []*mutant
	last := readResults(root + "/" + resultsFile)
	first := int(time.Now().Unix()/(24*60*60)) * *sample
	for i := range *sample {
		if m := mutants[(first+i)%len(mutants)]; last[m.name] != (finder{}) {
			chosen = append(chosen, m)
		}
	}
	trial, err := newTrial(root, last, false)
	if err != nil {
		t.Fatal(err)
	}
	defer trial.remove()
	_, err = trial.all(t.Context(), chosen, func(m *mutant, by finder) {
		if by == (finder{}) {
			t.Errorf("%s (%s) was found by %v, and nothing finds it now", m.name, m.says, last[m.name])
		} else {
			t.Logf("%s: %v", m.name, by)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
