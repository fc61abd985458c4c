package kube

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Program is a running child. Its output goes to a file, for the message when it ends too early. A nil Program was never started.
type Program struct {
	Name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed once the process is gone
}

// exited says that a program ended by itself, and the last it said.
type exited struct{ name, state, tail string }

func (e *exited) Error() string { return fmt.Sprintf("%s ended (%s):\n%s", e.name, e.state, e.tail) }

// run starts a program in the folder dir, which ends with this process.
func run(dir, path string, args ...string) (*Program, error) {
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	return start(cmd, filepath.Join(dir, filepath.Base(path)+".log"), spawn)
}

// Detach starts a program in a session of its own: neither a terminal's interrupt nor the end of this process ends it.
func Detach(cmd *exec.Cmd, log string) (*Program, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return start(cmd, log, (*exec.Cmd).Start)
}

// start continues a log that is there, when a program runs a second time. The program is named after it.
func start(cmd *exec.Cmd, log string, by func(*exec.Cmd) error) (*Program, error) {
	p := &Program{Name: strings.TrimSuffix(filepath.Base(log), ".log"), log: log, cmd: cmd, done: make(chan struct{})}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the child has its own
	cmd.Stdout, cmd.Stderr = file, file
	if err := by(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	go func() {
		_ = cmd.Wait() // the state is asked for where it matters
		close(p.done)
	}()
	return p, nil
}

// Beside starts a program in the cluster's folder and returns once it is ready. It ends with the process that started it, and
// with its own Stop.
func (c *Cluster) Beside(ctx context.Context, ready func(context.Context) error, path string, args ...string) (*Program, error) {
	p, err := run(c.dir, path, args...)
	if err != nil {
		return nil, err
	}
	if err := p.until(ctx, ready); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// until polls until the program is ready. It gives up at once when the program ends: nothing would come any more.
func (p *Program) until(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.done:
			cancel(p.Ended())
		case <-ctx.Done():
		}
	}()
	if err := Poll(ctx, 10*time.Millisecond, ready); err != nil {
		return fmt.Errorf("wait for %s: %w", p.Name, err)
	}
	return nil
}

// answers polls until a page has the status 200.
func (p *Program) answers(ctx context.Context, client *http.Client, url string) error {
	return p.until(ctx, func(ctx context.Context) error {
		_, err := Get(ctx, client, url)
		return err
	})
}

// Ended is nil as long as the program runs.
func (p *Program) Ended() error {
	select {
	case <-p.done:
		return &exited{p.Name, p.cmd.ProcessState.String(), Tail(p.log)}
	default:
		return nil
	}
}

// Log is the file that the program's output goes to.
func (p *Program) Log() string { return p.log }

// PID is the program's process id.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Wait returns when the program has ended.
func (p *Program) Wait() { <-p.done }

// Stop kills the program and returns once it is gone. There is no gentle end: the data goes with the folder, and an outage should
// look like one.
func (p *Program) Stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // fails only where it has ended already
	<-p.done
}

// Tail is the end of a program's log.
func Tail(log string) string {
	const lines = 20
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
