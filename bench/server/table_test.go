package main

import (
	"math"
	"slices"
	"testing"
)

// these are figures in the order of the columns.
func these(figures ...float64) func(answerer) float64 {
	return func(who answerer) float64 {
		if at := slices.Index(everybody, who); at < len(figures) {
			return figures[at]
		}
		return math.NaN()
	}
}

func TestTheTable(t *testing.T) {
	got := table([]section{
		{"CPU per query, µs", []row{
			{"A", 1, []goal{{whoami, 1}, {inTree, 0.55}}, these(10.04, 20, 10, 9)},
			{"SRV", 1, nil, these(10.06, 20)},
		}},
		{"change", []row{{"p99, ms", 0, []goal{{"", 50}}, these(3.7)}}},
	})
	// 1.004 is shown as 1.00, and yet is no 1.00.
	const want = `           ours  in-tree  whoami  ready-made  goal     ours/in-tree    ours/whoami     ours/ready-made

CPU per query, µs
  A        10.0     20.0    10.0         9.0           0.50 ≤0.55 yes  1.00 ≤1.00 no   1.12
  SRV      10.1     20.0                               0.50

change
  p99, ms     4                               ≤50 yes

2 of 3 goals are reached.
`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// A goal of what was not measured is not reached.
func TestNothingReachesNoGoal(t *testing.T) {
	for _, g := range []goal{{"", 1}, {inTree, 1}} {
		if g.reached(row{value: these()}) {
			t.Errorf("%+v is reached by nothing", g)
		}
	}
}
