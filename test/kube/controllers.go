package kube

import (
	"context"
	"path/filepath"
)

const controllersSocket = "controllers.sock"

// StartControllers makes owners' dependents and deleted namespaces go, as in a cluster, and fills the Secrets that ask for a service
// account's token: by kube-controller-manager's own code, without its other controllers. Garbage collection learns of new CRDs every five
// seconds only: install them before.
func (c *Cluster) StartControllers(ctx context.Context) error {
	programs, err := c.programs(ctx, "controllers")
	if err != nil {
		return err
	}
	c.controllers, err = run(c.dir, programs["controllers"],
		"--kubeconfig="+c.Kubeconfig, "--service-account-private-key-file=tokens.key", "--socket="+controllersSocket)
	if err != nil {
		return err
	}
	return c.controllers.until(ctx, func(ctx context.Context) error {
		return getOverSocket(ctx, filepath.Join(c.dir, controllersSocket), "/healthz")
	})
}
