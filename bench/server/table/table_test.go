package table

import (
	"math"
	"strings"
	"testing"
)

func TestQuantiles(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{[]float64{3}, 0.5, 3},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{3, 1, 2}, 0.99, 3},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{hundred, 0, 1},
	} {
		if got := quantile(c.values, c.q); got != c.want {
			t.Errorf("quantile %v of %v: %v; want %v", c.q, c.values, got, c.want)
		}
	}
	if got := quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestSamplesStayInOrder(t *testing.T) {
	var s Samples
	s.Add("cpu", "A", Ours, 3)
	s.Add("cpu", "A", InTree, 9)
	s.Add("cpu", "A", Ours, 1.5)
	var out strings.Builder
	if err := s.WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	const want = "measure,case,answerer,sample,value\ncpu,A,ours,1,3\ncpu,A,ours,2,1.5\ncpu,A,in-tree,1,9\n"
	if out.String() != want {
		t.Errorf("%s; want %s", out.String(), want)
	}
	if m := s.Median("cpu", "A", Ours); m != 2.25 {
		t.Errorf("the median is %v; want 2.25", m)
	}
}

func TestTheTable(t *testing.T) {
	var out strings.Builder
	err := Write(&out, []Section{
		{"CPU per query, µs", []Row{
			{"A", 1, map[Who]float64{Ours: 10.04, InTree: 20, Whoami: 10, ReadyMade: 9}, []Goal{{Whoami, 1}, {InTree, 0.55}}},
			{"SRV", 1, map[Who]float64{Ours: 10.06, InTree: 20}, nil},
		}},
		{"change", []Row{{"p99, ms", 0, map[Who]float64{Ours: 3.7}, []Goal{{"", 50}}}}},
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
	for _, g := range []Goal{{"", 1}, {InTree, 1}} {
		if g.reached(Row{}) {
			t.Errorf("%+v is reached by nothing", g)
		}
	}
}
