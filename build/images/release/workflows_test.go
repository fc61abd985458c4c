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

// TestReleaseNeedsTheVulnerabilityCheck: a release that was not checked is not published.
func TestReleaseNeedsTheVulnerabilityCheck(t *testing.T) {
	workflow := parse(t, "../../../.github/workflows/release.yaml")
	checked := map[string]bool{}
	for id, job := range workflow.Jobs {
		for _, step := range job.Steps {
			if run, ok := step.Exec.(*actionlint.ExecRun); ok && run.Run.Value == "make vuln ARGS=-required" && step.If == nil && step.ContinueOnError == nil {
				checked[id] = true
			}
		}
	}
	for id, job := range workflow.Jobs {
		needs := len(job.Needs) == 1 && checked[job.Needs[0].Value]
		if !checked[id] && (!needs || job.If != nil) {
			t.Errorf("the job %s can run without make vuln ARGS=-required", id)
		}
	}
	if len(checked) != 1 || len(workflow.Jobs) < 2 {
		t.Errorf("jobs %v of %d check", checked, len(workflow.Jobs))
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
