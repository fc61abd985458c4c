package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// repository is a module of its own under git, in which a imports b. It is the working folder, and the home of stamps.
func repository(t *testing.T) {
	t.Helper()
	asked := full
	full = false
	t.Cleanup(func() { full = asked })
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv(built, "1")
	for path, text := range map[string]string{
		"go.mod": "module tiny\n\ngo 1.26\n", "go.sum": "", "build/env.sh": "", "Makefile": "", "deploy/x": "", "corefile-examples/x": "",
		"a/a_test.go": "package a\n\nimport _ \"tiny/b\"\n", "b/b.go": "package b\n", "c/c.go": "package c\n", "c/testdata/x.md": "",
		".gitignore": "bin\n",
	} {
		put(t, path, text)
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "a"}} {
		if _, err := git(t.Context(), nil, args...); err != nil {
			t.Fatal(err)
		}
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runs reports whether the part runs, or has passed with its inputs.
func (p part) runs(t *testing.T) bool {
	t.Helper()
	tree, err := workTree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(ranFile); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	if err := p.run(t.Context(), tree, &mu); err != nil {
		t.Fatal(err)
	}
	ran, err := os.ReadFile(ranFile)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(ran), " passed ")
}

// TestAPartRunsAgainWhenItsInputsChange: what its tests import, what it lists, its own command, and nothing else. Files need not be committed.
func TestAPartRunsAgainWhenItsInputsChange(t *testing.T) {
	repository(t)
	p := part{name: "p", module: ".", tests: []string{"./a"}, command: "true", inputs: []string{"Makefile"}}
	for _, step := range []struct {
		change, text string
		want         bool
	}{
		{"", "", true}, {"", "", false}, {"b/b.go", "package b // more\n", true}, {"", "", false}, {"a/testdata/new", "x", true},
		{"c/c.go", "package c // more\n", false}, {"Makefile", "x", true}, {"b/b.go", "package b\n", true}, {"b/b.go", "package b // more\n", false},
	} {
		if step.change != "" {
			put(t, step.change, step.text)
		}
		if got := p.runs(t); got != step.want {
			t.Errorf("after a change of %q the part runs: %v, want %v", step.change, got, step.want)
		}
	}
	if all := (part{name: "all", command: "true", inputs: []string{"."}}); !all.runs(t) || all.runs(t) {
		t.Error("a part with all files as its input does not run once")
	}
	if p.command = "true # another"; !p.runs(t) {
		t.Error("another command does not run")
	}
	t.Setenv(built, "")
	p.command = "true # by hand"
	for range 2 {
		if !p.runs(t) {
			t.Error("a run with programs that nobody has just built leaves a stamp")
		}
	}
	t.Setenv(built, "1")
	full = true
	if !p.runs(t) {
		t.Error("CI_FULL does not run what has passed")
	}
}

func TestAFailedPartLeavesNoStamp(t *testing.T) {
	repository(t)
	tree, err := workTree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	for range 2 {
		err := part{name: "p", module: ".", command: "echo 'the reason'; false"}.run(t.Context(), tree, &mu)
		if err == nil || !strings.Contains(err.Error(), "bin/parts/p.log") {
			t.Fatalf("%v; want the place of the log", err)
		}
	}
	if text, _ := os.ReadFile("bin/parts/p.log"); !strings.Contains(string(text), "the reason") {
		t.Errorf("the log has %q", text)
	}
	if err := (part{name: "p", inputs: []string{"nowhere"}}).run(t.Context(), tree, &mu); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("%v; want the input that is not there", err)
	}
}

// TestAChangeDuringTheRunLeavesNoStamp: nobody knows which of the two the tests have read.
func TestAChangeDuringTheRunLeavesNoStamp(t *testing.T) {
	repository(t)
	p := part{name: "p", module: ".", tests: []string{"./a"}, command: "echo '// more' >>b/b.go"}
	if first, second := p.runs(t), p.runs(t); !first || !second {
		t.Error("it does not run again")
	}
}

// TestAStampThatCannotBeWrittenIsNoFailure: the part runs again, and that is all.
func TestAStampThatCannotBeWrittenIsNoFailure(t *testing.T) {
	repository(t)
	put(t, "bin/file", "")
	t.Setenv("XDG_CACHE_HOME", "bin/file")
	p := part{name: "p", module: ".", command: "true"}
	if first, second := p.runs(t), p.runs(t); !first || !second {
		t.Error("it does not run again")
	}
}

// TestTooManyServersFail: a part that starts more API servers than it may.
func TestTooManyServersFail(t *testing.T) {
	repository(t)
	var mu sync.Mutex
	p := part{name: "p", module: ".", command: "for i in 1 2; do echo a.test >>$API_SERVER_STARTS; done", servers: 2}
	if err := p.run(t.Context(), "", &mu); err != nil {
		t.Error(err)
	}
	p.servers = 1
	if err := p.run(t.Context(), "", &mu); err == nil || !strings.Contains(err.Error(), "2 API servers were started, 1 are allowed") {
		t.Errorf("%v; want how many there were", err)
	}
}

// TestANightlyPartIsOfTheRecord: with the inputs of the last full run it does not run, also on a new machine.
func TestANightlyPartIsOfTheRecord(t *testing.T) {
	repository(t)
	p := part{name: "p", module: ".", nightly: true, command: "true", tests: []string{"./a"}, inputs: []string{"c"}}
	if !p.runs(t) {
		t.Fatal("it does not run without a record")
	}
	ran, err := os.ReadFile(ranFile)
	if err != nil {
		t.Fatal(err)
	}
	put(t, record, "two cores\n"+string(ran))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if p.runs(t) {
		t.Error("it runs on a new machine")
	}
	put(t, "b/b.go", "package b // which other parts test\n")
	if p.runs(t) {
		t.Error("it runs when the product has changed")
	}
	put(t, "c/c.go", "package c // more\n")
	if !p.runs(t) {
		t.Error("it does not run when its inputs have changed")
	}
}

func TestCheckTakesWhatDependsOnChangedFiles(t *testing.T) {
	repository(t)
	if err := os.RemoveAll("b"); err != nil {
		t.Fatal(err)
	}
	if got, err := dependents(t.Context(), ".", []string{"b/b.go"}); err != nil || !slices.Equal(got, []string{"./a"}) {
		t.Errorf("a package is removed: %q, %v; want what imports it", got, err)
	}
	put(t, "b/b.go", "package b\n")
	for file, want := range map[string][]string{
		"b/b.go": {"./a", "./b"}, "a/a_test.go": {"./a"}, "c/testdata/x.md": {"./c", "./test/docs"}, "Makefile": nil, "go.mod": {"./a", "./b", "./c"},
	} {
		if got, err := dependents(t.Context(), ".", []string{file}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", file, got, err, want)
		}
	}
}

func TestUnknownPartsAreNamed(t *testing.T) {
	if _, err := choose([]string{"dns", "nonsense"}); err == nil || !strings.Contains(err.Error(), "nonsense") || !strings.Contains(err.Error(), "dns") {
		t.Errorf("%v; want the unknown part and those that there are", err)
	}
}

// TestPartsHaveNamesOfTheirOwn: stamps go by names, and all inputs are there.
func TestPartsHaveNamesOfTheirOwn(t *testing.T) {
	t.Chdir("../..")
	names := map[string]bool{}
	for _, p := range parts {
		if names[p.name] {
			t.Errorf("two parts are called %s", p.name)
		}
		names[p.name] = true
		for _, path := range p.inputs {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("part %s: %v", p.name, err)
			}
		}
	}
}

// TestTheReportEndsWithWhatFailedTestsSaid: those that failed, in the order in which they did, with and without -v.
func TestTheReportEndsWithWhatFailedTestsSaid(t *testing.T) {
	verbose := `=== RUN   TestGood
    good_test.go:1: no matter
=== RUN   TestBad
=== PAUSE TestBad
--- PASS: TestGood (0.00s)
=== CONT  TestBad
    bad_test.go:7: 2 questions
        had no answer
=== RUN   TestBad/part
    bad_test.go:9: nor this one
--- FAIL: TestBad (1.00s)
`
	plain := "--- FAIL: TestPlain (0.00s)\n    plain_test.go:3: no\nFAIL\n"
	want := map[string][]string{
		"TestBad":   {"    bad_test.go:7: 2 questions\n", "        had no answer\n", "    bad_test.go:9: nor this one\n"},
		"TestPlain": {"    plain_test.go:3: no\n"},
	}
	failed, said := complaints(verbose + plain)
	if order := []string{"TestBad", "TestPlain"}; !slices.Equal(failed, order) {
		t.Errorf("failed: %q, want %q", failed, order)
	}
	for test := range want {
		if got := said[test]; !slices.Equal(got, want[test]) {
			t.Errorf("%s said %q, want %q", test, got, want[test])
		}
	}
	for _, log := range []string{"# example.org/bad\n./bad.go:3:2: undefined: x\nFAIL\texample.org/bad [build failed]\n", "panic: test timed out after 40m0s\n"} {
		if failed, said := complaints(log); len(failed) != 1 || strings.Join(said[failed[0]], "") != log {
			t.Errorf("of a log without a test that failed: %q", said)
		}
	}
	if _, said := complaints("--- FAIL: TestLong (0.00s)\n" + strings.Repeat("    long_test.go:3: no\n", 1000)); len(said["TestLong"]) != mostComplaints {
		t.Errorf("%d lines of a long one", len(said["TestLong"]))
	}
}

// TestDecisive: what a log keeps of a test is the message that says what was wanted, not the state that was printed after it.
func TestDecisive(t *testing.T) {
	wanted, state := []string{"    a_test.go:1: 2,\n", "        want 3\n"}, []string{"    b_test.go:2: pods\n"}
	if got, want := decisive(slices.Concat(state, wanted, state)), strings.Join(wanted, ""); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := decisive(slices.Concat(state, state)); got != strings.Join(slices.Concat(state, state), "") {
		t.Errorf("%q, want all", got)
	}
	if got := decisive([]string{"    a_test.go:1: want " + strings.Repeat("x", 2*mostDecisive)}); len(got) != mostDecisive {
		t.Errorf("%d bytes, want %d", len(got), mostDecisive)
	}
}
