package clusters

import (
	"context"
	"fmt"
	"os/exec"
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
	defer c.mu.Unlock()
	c.programs = append(c.programs, p)
	return p, nil
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
