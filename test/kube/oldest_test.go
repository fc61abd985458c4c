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
