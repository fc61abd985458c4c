package clusters

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// run starts a program in the cluster's network, which outlives this process. The command is replaced by the program, process id and all.
func (c *Cluster) run(name string, command ...string) (*kube.Program, error) {
	// Not `ip netns exec`: it mounts /sys anew, without the cgroups below.
	cmd := exec.Command("nsenter", append([]string{"--net=" + netnsFile(c.netns()), "--"}, command...)...)
	cmd.Dir = c.Dir
	p, err := kube.Detach(cmd, c.path("log", name+".log"))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.programs = append(c.programs, p)
	c.mu.Unlock()
	return p, c.record(name, p.PID())
}

// record lets another process end the program, if this one is killed: that knows it by its record alone.
func (c *Cluster) record(name string, pid int) error {
	started, ok := startOf(pid)
	if !ok {
		return nil // has ended already, which those who wait for it will say
	}
	return os.WriteFile(c.path("run", name+".pid"), fmt.Appendf(nil, "%d %s\n", pid, started), 0o600)
}

// recorded is the process of a record, if it still runs: the number may have gone to another process since.
func recorded(file string) (pid int, runs bool) {
	text, err := os.ReadFile(file)
	fields := strings.Fields(string(text))
	if err != nil || len(fields) != 2 {
		return 0, false
	}
	if pid, err = strconv.Atoi(fields[0]); err != nil {
		return 0, false
	}
	started, ok := startOf(pid)
	return pid, ok && started == fields[1]
}

// allRecorded are the processes that run of those that were ever recorded.
func (c *Cluster) allRecorded() (pids []int) {
	files, _ := filepath.Glob(c.path("run", "*.pid"))
	for _, file := range files {
		if pid, runs := recorded(file); runs {
			pids = append(pids, pid)
		}
	}
	return pids
}

// startOf is when a process started, in the kernel's own count. It is not ok for one that has ended, waited for or not.
func startOf(pid int) (string, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	// After the program's name, which is in parentheses and may hold anything: the state, and 18 fields later the start.
	const state, start = 0, 19
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= start || fields[state] == "Z" || fields[state] == "X" {
		return "", false
	}
	return fields[start], true
}

// pollEvery is slower than in package kube: most of what is waited for here takes long.
const pollEvery = 50 * time.Millisecond

// wait polls until the condition holds, for what a program is to do. It gives up at once when any of the cluster's programs ends.
func (c *Cluster) wait(ctx context.Context, what string, of *kube.Program, condition func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := kube.Poll(ctx, pollEvery, func(ctx context.Context) error {
		if dead := c.dead(); dead != nil {
			cancel(dead)
			return dead
		}
		return condition(ctx)
	})
	if err != nil {
		err = fmt.Errorf("%s: %w\nthe last that %s said:\n%s", what, err, of.Name, kube.Tail(of.Log()))
	}
	return err
}

// dead is of the first program that has ended, of all that are to run until Stop.
func (c *Cluster) dead() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.programs {
		if err := p.Ended(); err != nil {
			return err
		}
	}
	return nil
}

// within is kube.Poll for what the kernel has to do.
func within(limit time.Duration, condition func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit) //nolint:forbidigo // also where a test's own has ended
	defer cancel()
	return kube.Poll(ctx, pollEvery, func(context.Context) error { return condition() })
}
