package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
)

var (
	uses   = regexp.MustCompile(`(?m)^ +(?:- )?uses: (\S+)(.*)$`)
	pinned = regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40}$`)
)

// TestWorkflows checks what GitHub runs: by actionlint; that each action is of GitHub itself, of one commit, and has its version beside it;
// and that a token has only the permissions that a job names.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../../../.github/workflows/*")
	if err != nil || len(files) < 2 {
		t.Fatalf("%q, %v", files, err)
	}
	linter, err := actionlint.NewLinter(t.Output(), &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := linter.LintFiles(files, nil)
	if err != nil || len(found) > 0 {
		t.Errorf("actionlint: %d problems, %v", len(found), err)
	}
	for _, file := range files {
		text := readFile(t, file)
		actions := uses.FindAllStringSubmatch(text, -1)
		if len(actions) == 0 || len(actions) != strings.Count(text, "uses:") {
			t.Errorf("%s: found %d actions", file, len(actions))
		}
		for _, action := range actions {
			if !pinned.MatchString(action[1]) || !regexp.MustCompile(`^ # v\d+\.\d+\.\d+$`).MatchString(action[2]) {
				t.Errorf("%s: want actions/NAME@COMMIT # VERSION, not %s%s", file, action[1], action[2])
			}
		}
		if !strings.Contains(text, "\ndefaults:\n  run:\n    shell: bash") { // without it, a pipe hides a failure
			t.Errorf("%s: the shell is not bash with pipefail", file)
		}
		checkScripts(t, file)
		if !regexp.MustCompile(`(?m)^permissions:( \{\}|\n  contents: read)$`).MatchString(text) || strings.Contains(text, "write-all") {
			t.Errorf("%s: the token has more permissions than contents: read", file)
		}
	}
}

// checkScripts lets bash read what the steps run.
func checkScripts(t *testing.T, file string) {
	t.Helper()
	for _, job := range parse(t, file).Jobs {
		for _, step := range job.Steps {
			run, ok := step.Exec.(*actionlint.ExecRun)
			if !ok {
				continue
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-n")
			cmd.Stdin = strings.NewReader(run.Run.Value)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s\n%s", file, err, out, run.Run.Value)
			}
		}
	}
}

func parse(t *testing.T, file string) *actionlint.Workflow {
	t.Helper()
	workflow, problems := actionlint.Parse([]byte(readFile(t, file)))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return workflow
}

// TestReleaseIsChecked: what can write anywhere builds nothing, and begins after the jobs that check the tag, and for vulnerabilities.
func TestReleaseIsChecked(t *testing.T) {
	jobs := parse(t, "../../../.github/workflows/release.yaml").Jobs
	for id, want := range map[string]struct {
		needs, runs string
		writes      bool
	}{
		"allowed": {"", "repos/$GITHUB_REPOSITORY/compare/main...$GITHUB_SHA", false},
		"build":   {"allowed", "make vuln ARGS=-required", false},
		"publish": {"build", "sha256sum --check --strict checksums.txt", true},
	} {
		job := jobs[id]
		if job == nil {
			t.Fatalf("there is no job %s", id)
		}
		var needs []string
		for _, n := range job.Needs {
			needs = append(needs, n.Value)
		}
		if got := strings.Join(needs, " "); got != want.needs || job.If != nil || job.ContinueOnError != nil {
			t.Errorf("the job %s needs %q, or has a condition; want %q alone", id, got, want.needs)
		}
		runs, writes := false, false
		for _, step := range job.Steps {
			if run, ok := step.Exec.(*actionlint.ExecRun); ok && step.If == nil && step.ContinueOnError == nil && strings.Contains(run.Run.Value, want.runs) {
				runs = true
			} else if ok && want.writes && strings.Contains(run.Run.Value, "make ") {
				t.Errorf("the job %s has the right to write, and runs %s", id, run.Run.Value)
			}
		}
		for _, scope := range job.Permissions.Scopes {
			writes = writes || scope.Value.Value == "write"
		}
		if !runs || writes != want.writes {
			t.Errorf("the job %s runs %q: %t; it can write: %t", id, want.runs, runs, writes)
		}
	}
	if len(jobs) != 3 || jobs["publish"].Environment == nil {
		t.Errorf("%d jobs; want 3, the last one with an environment", len(jobs))
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
