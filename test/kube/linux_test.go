package kube

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestKubeProxyIsRefusedOutsideItsOwnNetwork(t *testing.T) {
	if err := new(Cluster).StartKubeProxy(t.Context()); !errors.Is(err, errNotInside) {
		t.Fatalf("%v; want %v", err, errNotInside)
	}
}

// TestOwnNetworkIsNotTheMachines: the test is root there, and sees nothing but its own loopback interface.
func TestOwnNetworkIsNotTheMachines(t *testing.T) {
	InNetNS(t, func(t *testing.T) {
		interfaces, err := net.Interfaces()
		if err != nil || len(interfaces) != 1 || os.Geteuid() != 0 {
			t.Fatalf("interfaces %v, user %d, %v", interfaces, os.Geteuid(), err)
		}
	})
}

func TestFailureInsideIsSeenOutside(t *testing.T) {
	if insideNetNS() {
		t.Fatal("failed as wanted")
	}
	var output strings.Builder
	err := again(t.Name(), &output, only(t)...)
	if _, ok := errors.AsType[*exec.ExitError](err); !ok || !strings.Contains(output.String(), "failed as wanted") {
		t.Fatalf("%v: %s", err, &output)
	}
}

// TestProgramsEndWithAKilledProcess: a test that is killed tidies nothing up; the kernel ends its programs, and the next start
// removes its folder.
func TestProgramsEndWithAKilledProcess(t *testing.T) {
	const inside = "REALKUBE_HOLD"
	if os.Getenv(inside) != "" {
		c := New(t, Options{})
		fmt.Println("holding", c.dir, c.etcd.PID(), c.apiserver.PID())
		<-t.Context().Done() // never: it is killed here
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inside+"=1", "TMPDIR="+t.TempDir())
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var dir string
	var pids [2]int
	lines := bufio.NewScanner(output)
	for pids[1] == 0 && lines.Scan() {
		_, _ = fmt.Sscanf(lines.Text(), "holding %s %d %d", &dir, &pids[0], &pids[1]) // other lines are of others
	}
	if ended(pids[0]) == nil || ended(pids[1]) == nil {
		t.Fatal("the programs did not even run")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the error is that it was killed
	for _, pid := range pids {
		Eventually(t, "the kernel ends a program", func() error { return ended(pid) })
	}
	removeAbandoned(filepath.Dir(dir))
	if exists(dir) {
		t.Errorf("%s is left", dir)
	}
}

// ended wants the process gone, or dead and waiting for its new parent.
func ended(pid int) error {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || strings.Contains(string(state), ") Z ") {
		return nil
	}
	return fmt.Errorf("process %d lives: %s", pid, state)
}
