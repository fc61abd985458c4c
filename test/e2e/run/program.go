package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// test builds the tests and runs them. All that they write outside of the clusters is in the scratch folder.
func test(ctx context.Context, o options, scratch string, environment ...string) error {
	binary := filepath.Join(scratch, "e2e.test")
	if err := command(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-o", binary, "./test/e2e").Run(); err != nil {
		return err
	}
	args := []string{"-test.v", "-test.timeout=55m", "-test.parallel=5", "-test.skip=^TestUnit"} // those need no clusters: make test runs them
	if o.filter != "" {
		args = append(args, "-test.run="+o.filter)
	}
	cmd := command(ctx, binary, args...)
	cmd.Dir = filepath.Join("test", "e2e")
	cmd.Env = append(append(cmd.Env, "TMPDIR="+scratch), environment...)
	return cmd.Run()
}

// command is a program that ends with the context, and with it all that it has started: it has a process group of its own, which
// a terminal's Ctrl-C does not reach.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+kube.Flags) // also where it is not make that has started us
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}
