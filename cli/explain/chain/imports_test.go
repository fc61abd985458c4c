package chain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The package is pure: it speaks to no cluster, and has no clock.
func TestPure(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"k8s.io/client-go", "cli/clusters", "cli/system", "cli/dnsserver", "time.Now", "time.Since", "time.Until"} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s contains %s", file, word)
			}
		}
	}
}
