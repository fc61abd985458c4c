package clusters

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// Load gives the cluster's node the images of an archive, of Docker's format or OCI's, under the names in it. It returns once pods
// can use them.
func (c *Cluster) Load(ctx context.Context, archive string) error {
	if err := dial(ctx, c.containerdSocket()); err != nil {
		return fmt.Errorf("the cluster %s has no node that runs: %w", c.Name, err)
	}
	if _, err := c.ctr(ctx, "images", "import", "--snapshotter="+snapshotter(), archive); err != nil {
		return fmt.Errorf("load %s into the cluster %s: %w", archive, c.Name, err)
	}
	return c.untilManaged(ctx)
}

// Tag gives an image that the node has one more name, with its registry. It returns once pods can use the name.
func (c *Cluster) Tag(ctx context.Context, image, name string) error {
	if _, err := c.ctr(ctx, "images", "tag", "--force", image, name); err != nil {
		return fmt.Errorf("name %s %s in the cluster %s: %w", image, name, c.Name, err)
	}
	return c.untilManaged(ctx)
}

// untilManaged waits until every image has the label that containerd's part for Kubernetes gives when it knows the image, some time after the
// import: a pod made earlier would ask a registry.
func (c *Cluster) untilManaged(ctx context.Context) error {
	return kube.Poll(ctx, pollEvery, func(ctx context.Context) error {
		list, err := c.ctr(ctx, "images", "list")
		for line := range strings.Lines(list) {
			if !strings.HasPrefix(line, "REF ") && !strings.Contains(line, "io.cri-containerd.image=managed") {
				return errors.Join(err, fmt.Errorf("containerd has not noticed an image yet: %s", line))
			}
		}
		return err
	})
}

func (c *Cluster) ctr(ctx context.Context, args ...string) (string, error) {
	return kube.Output(exec.CommandContext(ctx, "ctr", append([]string{"--address=" + c.containerdSocket(), "--namespace=" + containerdNamespace}, args...)...))
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
