package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestResults: a file in a folder that does not exist yet, with the machine of the measurement.
func TestResults(t *testing.T) {
	folder := t.TempDir()
	report, path := filepath.Join(folder, "report"), filepath.Join(folder, "bin", "e2e.txt")
	if err := os.WriteFile(report, []byte("a name\t1.0 s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeResults(t.Context(), path, report, "load for 45s; elsewhere"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if head, rest, _ := strings.Cut(string(text), "\n\n"); !strings.HasSuffix(head, "; load for 45s; elsewhere") || !strings.HasPrefix(rest, "scenario") {
		t.Errorf("%s", text)
	}
}

// TestWrongOptionsAreRefused: before anything has begun.
func TestWrongOptionsAreRefused(t *testing.T) {
	for want, o := range map[string]struct {
		count int
		rest  []string
	}{
		"":                        {count: 2},
		"--clusters -1: a":        {count: -1},
		"--clusters 1: a":         {count: 1},
		"--clusters 12: a":        {count: 12},
		`"TestLoad" is no option`: {count: 3, rest: []string{"TestLoad"}},
	} {
		err := (&options{count: o.count}).check(o.rest)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestLoadFor(t *testing.T) {
	t.Setenv("CI_FULL", "")
	for given, want := range map[string]string{"": "30s", "45s": "45s", "soon": "", "0s": "", "-1m": ""} {
		t.Setenv("E2E_LOAD_FOR", given)
		if got, err := loadFor(); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v; want %q", given, got, err, want)
		}
	}
	t.Setenv("CI_FULL", "1")
	t.Setenv("E2E_LOAD_FOR", "")
	if got, err := loadFor(); got != "5m" || err != nil {
		t.Errorf("in the full form: %q, %v", got, err)
	}
}

func TestTables(t *testing.T) {
	const report = "a name\t1.0 s\n" +
		"a database moves\t20.0 s\n> without an answer\t2.50 s\n  requests\t12\n> to an answer\t1.00 s\n"
	const want = `failover times
a database moves
  without an answer  2.50 s
  to an answer       1.00 s

scenario          time
a name            1.0 s
a database moves  20.0 s
  requests        12
`
	if got := tables(report); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
