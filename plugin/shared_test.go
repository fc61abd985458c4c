package multicluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterset-dns/multicluster/test/realkube"
)

// kubeconfig writes one that leads to a closed port of loopback.
func kubeconfig(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	rewrite(t, path, token)
	return path
}

func rewrite(t *testing.T, path, token string) {
	t.Helper()
	text := fmt.Sprintf(`{clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: a, user: {token: %q}}],
contexts: [{name: a, context: {cluster: a, user: a}}], current-context: a}`, token)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reading is one reading of a Corefile whose blocks use the given kubeconfigs, begun.
func reading(t *testing.T, kubeconfigs ...string) *instance {
	t.Helper()
	i := &instance{watches: map[string]*sharedWatch{}}
	for _, path := range kubeconfigs {
		if _, err := i.watch(config{kubeconfig: path}); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.end)
	return i
}

func running(t *testing.T, when string, want float64) {
	t.Helper()
	realkube.Eventually(t, fmt.Sprintf("%s there are %v watches", when, want), func() error {
		if got := testutil.ToFloat64(watchesGauge); got != want {
			return fmt.Errorf("there are %v", got)
		}
		return nil
	})
}

func TestWatchesAreSharedAndEnd(t *testing.T) {
	a, b := kubeconfig(t, "a"), kubeconfig(t, "b")
	first := reading(t, a, a, b)
	running(t, "for three blocks that watch two clusters", 2)

	second := reading(t, a)
	first.end()
	running(t, "after a reload that needs one of them", 1)
	for key := range second.watches {
		if second.watches[key] != first.watches[key] {
			t.Error("the reload began a watch anew, and forgot what the one before knew")
		}
	}

	_ = reading(t, a, b)
	second.restartFailed()
	running(t, "after a reload that failed", 1)

	rewrite(t, a, "another token")
	third := reading(t, a)
	second.end()
	running(t, "after a reload with another account in the same file", 1)
	third.end()
	running(t, "at the end", 0)
}
