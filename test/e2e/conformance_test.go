package e2e

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// ran are the lines in which Ginkgo sums up.
var ran = regexp.MustCompile(`(?m)^(?:Ran \d+ of \d+ Specs.*|\S+ -- \d+ Passed.*)$`)

// escapes are the colours of a terminal.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

func (s *scene) conformance() {
	t := s.t
	folder, results := os.Getenv("E2E_SUITE"), os.Getenv("E2E_SUITE_RESULTS")
	if folder == "" {
		t.Skip("needs the public conformance suite: make conformance SUITE=<checkout of kubernetes-sigs/mcs-api>")
	}
	program := filepath.Join(t.TempDir(), "conformance.test")
	// A checkout has a go.mod of its own, so go runs in its folder.
	if _, err := s.run(t.Context(), "", "env", "CGO_ENABLED=0", "GOWORK=off", "go", "-C", filepath.Join(folder, "conformance"), "test", "-c", "-vet=off", "-o", program, "."); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(results, "output.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	suite := exec.CommandContext(t.Context(), program, "-test.v", "-test.timeout=1h",
		"-kubeconfig="+s.kubeconfig(), "-contexts="+s.clusters[0].id+","+s.clusters[1].id)
	suite.Dir = results // where the suite writes its report
	suite.Env = append(os.Environ(), "PATH="+filepath.Dir(s.set.kubectl)+":"+os.Getenv("PATH"))
	suite.Stdout = io.MultiWriter(&output, log)
	suite.Stderr = suite.Stdout
	failure := suite.Run()
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	text := escapes.ReplaceAllString(output.String(), "")
	sums := ran.FindAllString(text, -1)
	if failure != nil || len(sums) == 0 {
		t.Fatalf("the suite in %s: %v\n%s", folder, failure, text)
	}
	if reports, err := filepath.Glob(filepath.Join(results, "report*")); err != nil || len(reports) == 0 {
		t.Errorf("the suite left no report in %s: %v", results, err)
	}
	s.reportValue("the suite", strings.Join(sums, "; "))
}
