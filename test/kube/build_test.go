package kube

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestAllIsBuiltWithOneSetOfFlags: with another one, a new machine compiles everything twice.
func TestAllIsBuiltWithOneSetOfFlags(t *testing.T) {
	script, err := os.ReadFile("../../build/env.sh")
	if err != nil {
		t.Fatal(err)
	}
	if line := "\nexport GOFLAGS=\"" + Flags + "\"\n"; !strings.Contains(string(script), line) {
		t.Errorf("build/env.sh has no line %q", line)
	}
}

// TestSharedModulesHaveOneVersion: with two, a new machine compiles client-go and the like twice.
func TestSharedModulesHaveOneVersion(t *testing.T) {
	ours, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	kubes, err := os.ReadFile("programs/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	shared := regexp.MustCompile(`(?m)^\s+((?:k8s\.io|sigs\.k8s\.io|golang\.org/x|github\.com/prometheus)/\S+|google\.golang\.org/protobuf) v`)
	for _, module := range shared.FindAllSubmatch(ours, -1) {
		name := string(module[1])
		want, got := required(ours, name), required(kubes, name)
		// A module of Kubernetes' own repository may be given by the replacements alone.
		if got != "" && got != "v0.0.0" && got != want {
			t.Errorf("test/kube/programs has %s %s, and the project %s: go get it there, then go mod tidy", name, got, want)
		}
	}
}
