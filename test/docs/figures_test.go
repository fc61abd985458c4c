package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"
)

// TestChooseDNSShowsTheBenchmark: the measured rows of the comparison are those of docs/results/bench.txt, rounded.
func TestChooseDNSShowsTheBenchmark(t *testing.T) {
	page, err := read(root)("docs/choose-dns.md")
	if err != nil {
		t.Fatal(err)
	}
	bench, err := read(root)("docs/results/bench.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ measured, shown, unit string }{
		{"A", "CPU time for an A answer", "µs"},
		{"headless of 50", "CPU time for a headless answer of 50", "µs"},
		{"heap per import, bytes, 100 000 imports", "heap for each import", "bytes"},
	} {
		found := regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(row.measured) + `  +([\d.]+) +([\d.]+) `).FindStringSubmatch(bench) // the first: CPU per query
		if found == nil {
			t.Errorf("bench.txt has no row %q", row.measured)
			continue
		}
		want := fmt.Sprintf("| %s | %s %s | %s %[3]s |", row.shown, rounded(t, found[2]), row.unit, rounded(t, found[1]))
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(want)).MatchString(page) {
			t.Errorf("docs/choose-dns.md does not have the row %q", want)
		}
	}
}

func rounded(t *testing.T, number string) string {
	t.Helper()
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(int(math.Round(value)))
}
