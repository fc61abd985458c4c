package clusters

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Load gives the cluster's node the images of an archive, of Docker's format or OCI's, under the names in it. It returns once pods
// can use them.
func (c *Cluster) Load(ctx context.Context, archive string) error {
	if err := dial(ctx, c.containerdSocket()); err != nil {
		return fmt.Errorf("the cluster %s has no node that runs: %w", c.Name, err)
	}
	output, err := c.ctr(ctx, "images", "import", "--snapshotter="+snapshotter(), archive)
	if err != nil {
		return fmt.Errorf("load %s into the cluster %s: %w", archive, c.Name, err)
	}
	names := imported(output)
	if len(names) == 0 {
		return fmt.Errorf("load %s: it names no image:\n%s", archive, output)
	}
	err = poll(ctx.Done(), func() error { return c.checkManaged(ctx, names) })
	return errors.Join(err, ctx.Err())
}

// imported are the names that `ctr images import` says it has unpacked.
func imported(output string) []string {
	var names []string
	for line := range strings.Lines(output) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "unpacking" {
			names = append(names, fields[1])
		}
	}
	return names
}

// checkManaged wants the label that containerd gives an image when it has told its part for Kubernetes about it, some time after
// the import: a pod made earlier would ask a registry.
func (c *Cluster) checkManaged(ctx context.Context, names []string) error {
	for _, name := range names {
		output, err := c.ctr(ctx, "images", "list", "name=="+name)
		if err != nil {
			return err
		}
		if !strings.Contains(output, "io.cri-containerd.image=managed") {
			return fmt.Errorf("containerd has not noticed the image %s yet", name)
		}
	}
	return nil
}

func (c *Cluster) ctr(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "ctr", append([]string{"--address=" + c.containerdSocket(), "--namespace=" + containerdNamespace}, args...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return string(output), err
}

// loadImages loads what every pod needs, and the tools.
func (c *Cluster) loadImages(ctx context.Context) error {
	for _, archive := range []string{c.images.Pause, c.images.Tools} {
		if err := c.Load(ctx, archive); err != nil {
			return err
		}
	}
	c.say("the images are loaded")
	return nil
}
