package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/build/images/archives"
)

// TestContainerd imports archives into a containerd of the test's own, as it comes with Debian: by each name, for this machine.
func TestContainerd(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("containerd needs root here")
	}
	for _, program := range []string{"containerd", "ctr"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s (apt-get install containerd)", program)
		}
	}
	ctr := startContainerd(t)
	other := "arm64"
	if runtime.GOARCH == other {
		other = "amd64"
	}
	for _, architectures := range [][]string{{runtime.GOARCH}, {other, runtime.GOARCH}} {
		path, _ := testArchive(t, architectures...)
		archive, err := archives.Open(path, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		const repository = "registry.invalid/clusterset-dns/coredns"
		names := []string{repository + ":v1.2.3", repository + ":latest", repository + "@" + archive.Digest.String()}
		ctr("images", "import", "--snapshotter=native", path)
		list := ctr("images", "list")
		for _, want := range names {
			if !strings.Contains(list, want+" ") {
				t.Errorf("%v: no %s in\n%s", architectures, want, list)
			}
		}
		for _, architecture := range architectures {
			if !strings.Contains(list, "linux/"+architecture) {
				t.Errorf("%v: nothing for %s in\n%s", architectures, architecture, list)
			}
		}
		ctr(append([]string{"images", "remove"}, names...)...)
	}
}

// startContainerd returns what asks it. Without its part for Kubernetes it needs nothing else.
func startContainerd(t *testing.T) (ctr func(args ...string) string) {
	t.Helper()
	folder := t.TempDir()
	socket, config := filepath.Join(folder, "socket"), filepath.Join(folder, "config.toml")
	text := fmt.Sprintf(`version = 2
root = "%[1]s/root"
state = "%[1]s/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
  address = %[2]q
[ttrpc]
  address = "%[1]s/ttrpc"
`, folder, socket)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "containerd", "--config", config)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() { <-ended }) // the test's context has ended by now
	ctr = func(args ...string) string {
		t.Helper()
		args = append([]string{"--address", socket}, args...)
		output, err := exec.CommandContext(t.Context(), "ctr", args...).CombinedOutput()
		if err != nil {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("ctr %q: %v\n%s\ncontainerd says:\n%s", args, err, output, said)
		}
		return string(output)
	}
	for poll := time.NewTicker(10 * time.Millisecond); ; {
		if connection, err := new(net.Dialer).DialContext(t.Context(), "unix", socket); err == nil {
			_ = connection.Close()
			poll.Stop()
			return ctr
		}
		select {
		case <-poll.C:
		case <-ended:
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("containerd has ended:\n%s", said)
		}
	}
}
