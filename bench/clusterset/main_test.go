package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReportJudgesGoals(t *testing.T) {
	rows := []row{{what: "first sync", got: 1194.4, unit: "s"}, row{what: "p99", got: 245.21, unit: "ms"}.to(500), row{what: "writes", got: 3, unit: "writes"}.to(2)}
	for _, c := range []struct {
		rows []row
		want string
	}{
		{rows[:1], "title\n\nwhat        measured\nfirst sync  1194 s\n"},
		{rows, `title

what        measured  to reach  
first sync  1194 s    
p99         245.2 ms  500 ms    reached
writes      3 writes  2 writes  not reached: 1.50 x

1 of 2 goals are reached.
`},
	} {
		if got := report("title", c.rows); got != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
}

func TestMetricsAreAddedByTheirLabels(t *testing.T) {
	all, err := parse("# TYPE requests counter\n" +
		"requests{resource=\"services\",verb=\"POST\"} 1\nrequests{resource=\"services\",verb=\"GET\"} 2\nrequests{resource=\"leases\",verb=\"PUT\"} 4\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := all("requests"); got != 7 {
		t.Errorf("%v of all; want 7", got)
	}
	if got := all("requests", "resource", "services endpointslices", "verb", "POST PUT"); got != 1 {
		t.Errorf("%v writes; want 1", got)
	}
	if got := all("absent", "resource", "services"); got != 0 {
		t.Errorf("%v of none; want 0", got)
	}
}

// A run replaces the rows of an earlier one with as many clusters, and the sizes stay sorted.
func TestRecordReplacesTheRowsOfItsSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scale.csv")
	for _, c := range []struct {
		peers int
		got   float64
	}{{99, 1}, {9, 2}, {99, 3}} {
		if err := record(path, World{Peers: c.peers, Services: 2}, []row{{what: "first sync", got: c.got, unit: "s"}}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if want := "10,18,first sync,2,s\n100,198,first sync,3,s\n"; err != nil || string(text) != want {
		t.Errorf("%v\n%s; want\n%s", err, text, want)
	}
}
