//go:build !linux

package kube

import (
	"os/exec"
	"syscall"
)

// spawn starts a command. Only Linux can tie its life to this process: elsewhere Stop has to be reached.
func spawn(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}
