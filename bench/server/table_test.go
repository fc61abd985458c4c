package main

import (
	"strings"
	"testing"
)

func TestTheTable(t *testing.T) {
	var out strings.Builder
	err := writeTable(&out, []section{
		{"CPU per query, µs", []row{
			{"A", 1, map[answerer]float64{ours: 10.04, inTree: 20, whoami: 10, readyMade: 9}, []goal{{whoami, 1}, {inTree, 0.55}}},
			{"SRV", 1, map[answerer]float64{ours: 10.06, inTree: 20}, nil},
		}},
		{"change", []row{{"p99, ms", 0, map[answerer]float64{ours: 3.7}, []goal{{"", 50}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	// 1.004 is shown as 1.00, and yet is no 1.00.
	const want = `           ours  in-tree  whoami  ready-made  goal     ours/in-tree    ours/whoami     ours/ready-made

CPU per query, µs
  A        10.0     20.0    10.0         9.0           0.50 ≤0.55 yes  1.00 ≤1.00 no   1.12
  SRV      10.1     20.0                               0.50

change
  p99, ms     4                               ≤50 yes

2 of 3 goals are reached.
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

// A goal of what was not measured is not reached.
func TestNothingReachesNoGoal(t *testing.T) {
	for _, g := range []goal{{"", 1}, {inTree, 1}} {
		if g.reached(row{}) {
			t.Errorf("%+v is reached by nothing", g)
		}
	}
}
