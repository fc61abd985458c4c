//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// TestHangup: a closed terminal ends the program as Ctrl-C does, with its status, so that verify can clean up.
func TestHangup(t *testing.T) {
	// Under nohup, the program would inherit that hangups are ignored.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	asked := make(chan struct{}, 16)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	dir := t.TempDir()
	file, program := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "kubectl-multicluster")
	config := `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "` + server.URL + `"}}], contexts: [{name: a, context: {cluster: c}}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, end := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		cmd := exec.CommandContext(t.Context(), program, "--kubeconfig", file, "--request-timeout=1h", "status")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-asked
		if err := cmd.Process.Signal(end); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the state tells how it ended
		if code := cmd.ProcessState.ExitCode(); code != 1 {
			t.Errorf("after %v it ended with %v, want the status 1", end, cmd.ProcessState)
		}
	}
}
