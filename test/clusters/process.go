package clusters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// program is one that this process started. Another process knows it by its record alone.
type program struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{} // closed once the process is gone
}

// exited says that a program ended by itself, and the last it said.
type exited struct{ name, state, tail string }

func (e *exited) Error() string { return fmt.Sprintf("%s ended (%s):\n%s", e.name, e.state, e.tail) }

// run starts a program in the cluster's network, in a session of its own: neither a terminal's interrupt nor the end of this
// process ends it. The command is replaced by the program, process id and all.
func (c *Cluster) run(name string, command ...string) (*program, error) {
	p := &program{name: name, log: c.path("log", name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	// Not `ip netns exec`: it mounts /sys anew, without the cgroups below.
	p.cmd = exec.Command("nsenter", append([]string{"--net=" + netnsFile(c.netns()), "--"}, command...)...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.Dir, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // the state is asked for where it matters
		close(p.done)
	}()
	c.mu.Lock()
	c.programs = append(c.programs, p)
	c.mu.Unlock()
	return p, c.record(p)
}

// record lets another process end the program, if this one is killed.
func (c *Cluster) record(p *program) error {
	pid := p.cmd.Process.Pid
	started, ok := startOf(pid)
	if !ok {
		return nil // has ended already, which those who wait for it will say
	}
	return os.WriteFile(c.path("run", p.name+".pid"), fmt.Appendf(nil, "%d %s\n", pid, started), 0o600)
}

// recorded are the processes that run of those that were ever recorded.
func (c *Cluster) recorded() []int {
	files, _ := filepath.Glob(c.path("run", "*.pid"))
	var pids []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		fields := strings.Fields(string(text))
		if err != nil || len(fields) != 2 {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err != nil {
			continue
		}
		// The number may have gone to another process since.
		if started, ok := startOf(pid); ok && started == fields[1] {
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

// wait polls until the condition holds, for what a program is to do. It gives up at once when any of the cluster's programs ends.
func (c *Cluster) wait(ctx context.Context, what string, of *program, condition func(context.Context) error) error {
	var dead *exited
	err := poll(ctx.Done(), func() error {
		if dead = c.dead(); dead != nil {
			return nil
		}
		return condition(ctx)
	})
	switch {
	case dead != nil:
		return fmt.Errorf("%s: %w", what, dead)
	case err != nil:
		return fmt.Errorf("%s: %w\nthe last that %s said:\n%s", what, errors.Join(context.Cause(ctx), err), of.name, kube.Tail(of.log))
	}
	return nil
}

// dead is the first program that has ended, of all that are to run until Stop.
func (c *Cluster) dead() *exited {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.programs {
		select {
		case <-p.done:
			return &exited{p.name, p.cmd.ProcessState.String(), kube.Tail(p.log)}
		default:
		}
	}
	return nil
}

// poll calls condition until it returns nil, or else gives its last error at the end.
func poll[T any](end <-chan T, condition func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-end:
			return err
		case <-tick.C:
		}
	}
}
