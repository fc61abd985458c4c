package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: kind-a
contexts: [{name: kind-a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://192.0.2.1:6443"}}]
users: [{name: a, user: {token: secret}}]
`

// TestGivenClusters: the files are found from any folder, and the first lines name the clusters
// that lose their DNS.
func TestGivenClusters(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	if err := os.WriteFile("a", []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(folder, "b")
	p, err := given("a" + separator + full)
	if err != nil || len(p.kubeconfigs) != 2 || !filepath.IsAbs(p.kubeconfigs[0]) || p.kubeconfigs[1] != full {
		t.Fatalf("%+v, %v; want two full paths", p, err)
	}
	if list := "KUBECONFIGS=" + strings.Join(p.kubeconfigs, separator); !slices.Contains(p.environment(), list) {
		t.Errorf("%q; want %s", p.environment(), list)
	}
	var out strings.Builder
	if err := p.warn(&out); err == nil || !strings.Contains(err.Error(), full) || out.Len() > 0 {
		t.Errorf("%v; want only that there is no %s", err, full)
	}
	if err := os.WriteFile(full, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.warn(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"replace the DNS", "stay replaced", "kind-a, https://192.0.2.1:6443", "docs/e2e.md"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nwant %q in it", out.String(), want)
		}
	}
	if err := os.WriteFile("b", []byte(strings.Replace(kubeconfig, "current-context: kind-a", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.warn(&out); err == nil || !strings.Contains(err.Error(), full) {
		t.Errorf("%v; want that %s has no current context", err, full)
	}
}
