package main

import (
	"strings"
	"testing"
)

const output = `goos: linux
some log line
BenchmarkServeDNS/imports=10000/question=A/plugin=ours-2          1   300 ns/op   10 B/op   7 allocs/op
BenchmarkServeDNS/imports=10000/question=A/plugin=ours-2          1   100 ns/op   10 B/op   7 allocs/op
BenchmarkServeDNS/imports=10000/question=A/plugin=ours-2          1   200 ns/op   10 B/op   7 allocs/op
BenchmarkServeDNS/imports=10000/question=A/plugin=in-tree-2       1   500 ns/op   10 B/op   32 allocs/op
BenchmarkServeDNS/imports=10000/question=headless-100/plugin=ours-2       1   10 ns/op   10 B/op   7 allocs/op
BenchmarkServeDNS/imports=10000/question=headless-100/plugin=in-tree-2    1   500 ns/op   10 B/op   32 allocs/op
PASS
`

func TestTable(t *testing.T) {
	var text strings.Builder
	if err := run(strings.NewReader(output), &text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"reached  A: allocations: 7, at most 8",
		"MISSED   A: time, ours / in-tree: 0.4, at most 0.333",
		"reached  headless of 100: time, ours / in-tree: 0.02, at most 0.05",
		"MISSED   one host among 1 000: time, to that of A: NaN, at most 1", // what was not measured
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

func TestFailurePrintsNoTable(t *testing.T) {
	for _, text := range []string{output + "FAIL\n", "PASS\n"} {
		if err := run(strings.NewReader(text), &strings.Builder{}); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
}
