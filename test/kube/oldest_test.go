package kube

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// TestOldest: the oldest kube-apiserver is at least three minor versions older than the newest, and all of its modules are of its version.
func TestOldest(t *testing.T) {
	newest, err := findSource()
	if err != nil {
		t.Fatal(err)
	}
	oldest, err := findOldest()
	if err != nil {
		t.Fatal(err)
	}
	from, to := version.MustParseSemantic(oldest.version), version.MustParseSemantic(newest.version)
	if from.Minor()+3 > to.Minor() || oldest.key == newest.key {
		t.Errorf("the oldest is %s, and the newest %s", oldest.key, newest.key)
	}
	text, err := os.ReadFile(filepath.Join(oldest.dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	replaced := regexp.MustCompile(`(?m)^\tk8s\.io/\S+ => k8s\.io/\S+ v0(\.\S+)$`).FindAllStringSubmatch(string(text), -1)
	for _, module := range replaced {
		if "v1"+module[1] != oldest.version {
			t.Errorf("test/kube/oldest/go.mod: %s, want that of Kubernetes %s", module[0], oldest.version)
		}
	}
	if len(replaced) < 20 {
		t.Errorf("%d modules of Kubernetes", len(replaced))
	}
}
