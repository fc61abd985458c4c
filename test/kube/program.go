package kube

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// program is a running child. Its output goes to a file, for the message when it ends too early.
type program struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed once the process is gone
}

// exited says that a program ended by itself, and the last it said.
type exited struct{ name, state, tail string }

func (e *exited) Error() string { return fmt.Sprintf("%s ended (%s):\n%s", e.name, e.state, e.tail) }

// run starts a program in the folder dir. Its log is continued there, not begun anew, when it runs a second time.
func run(dir, path string, args ...string) (*program, error) {
	p := &program{name: filepath.Base(path), done: make(chan struct{})}
	p.log = filepath.Join(dir, p.name+".log")
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	if err := spawn(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // the state is asked for where it matters
		close(p.done)
	}()
	return p, nil
}

// wait polls until the program is ready. It gives up at once when the program ends: nothing would come any more.
func (p *program) wait(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.done:
			cancel(p.exited())
		case <-ctx.Done():
		}
	}()
	if err := poll(ctx, 10*time.Millisecond, ready); err != nil {
		return fmt.Errorf("wait for %s: %w", p.name, err)
	}
	return nil
}

func (p *program) exited() error { return &exited{p.name, p.cmd.ProcessState.String(), Tail(p.log)} }

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

// runs reports whether the program was started and has not ended.
func (p *program) runs() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop kills the program and returns once it is gone. There is no gentle end: the data goes with the folder, and an outage should
// look like one. A nil program is one that was never started.
func (p *program) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // fails only where it has ended already
	<-p.done
}
