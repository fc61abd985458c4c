package kube

import "context"

// Beside is a program of ours that runs beside a cluster.
type Beside struct{ p *program }

// Beside starts a program in the cluster's folder and returns once it is ready. It ends with the process that started it, and
// with its own Stop.
func (c *Cluster) Beside(ctx context.Context, ready func(context.Context) error, path string, args ...string) (*Beside, error) {
	p, err := run(c.dir, path, args...)
	if err != nil {
		return nil, err
	}
	if err := p.wait(ctx, ready); err != nil {
		p.stop()
		return nil, err
	}
	return &Beside{p}, nil
}

// Log is the file that the program's output goes to.
func (b *Beside) Log() string { return b.p.log }

// PID is the program's process id.
func (b *Beside) PID() int { return b.p.cmd.Process.Pid }

// Stop ends the program, and returns when it has ended. A nil Beside was never started.
func (b *Beside) Stop() {
	if b != nil {
		b.p.stop()
	}
}

// Wait returns when the program has ended.
func (b *Beside) Wait() { <-b.p.done }
