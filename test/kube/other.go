//go:build !linux

package kube

import (
	"os/exec"
	"syscall"
	"testing"
)

// InNetNS needs Linux.
func InNetNS(t *testing.T, _ func(t *testing.T)) {
	t.Helper()
	t.Fatal("this test needs Linux: network namespaces and nftables")
}

// MainInNetNS runs the tests, which fail, as they need Linux.
func MainInNetNS(m *testing.M, main func(*testing.M) int) int { return main(m) }

func insideNetNS() bool { return false }

// spawn starts a command. Only Linux can tie its life to this process: elsewhere Stop has to be reached.
func spawn(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}
