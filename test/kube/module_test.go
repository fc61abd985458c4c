package kube

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
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

// TestOldest: the oldest kube-apiserver is at least three minor versions older than the newest, and all of its modules are of its version.
func TestOldest(t *testing.T) {
	young, err := newest.source()
	if err != nil {
		t.Fatal(err)
	}
	old, err := oldest.source()
	if err != nil {
		t.Fatal(err)
	}
	from, to := version.MustParseSemantic(old.version), version.MustParseSemantic(young.version)
	if from.Minor()+3 > to.Minor() || old.cache == young.cache {
		t.Errorf("the oldest is %s, and the newest %s", old.cache, young.cache)
	}
	text, err := os.ReadFile(filepath.Join(old.dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	replaced := regexp.MustCompile(`(?m)^\tk8s\.io/\S+ => k8s\.io/\S+ v0(\.\S+)$`).FindAllStringSubmatch(string(text), -1)
	for _, module := range replaced {
		if "v1"+module[1] != old.version {
			t.Errorf("test/kube/oldest/go.mod: %s, want that of Kubernetes %s", module[0], old.version)
		}
	}
	if len(replaced) < 20 {
		t.Errorf("%d modules of Kubernetes", len(replaced))
	}
}
