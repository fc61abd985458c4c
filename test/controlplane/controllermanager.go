package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
)

// StartControllerManager makes owners' dependents and deleted namespaces go, as in a cluster, and fills the Secrets that ask for a
// service account's token. Nothing else of it runs. Garbage collection learns of new CRDs every 30 seconds only: install them before.
func (c *Cluster) StartControllerManager(ctx context.Context) error {
	programs, err := c.programs(ctx, "kube-controller-manager")
	if err != nil {
		return err
	}
	// Its certificate is one that it makes for itself.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // its health is no secret
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	return retryBind(ctx, func(ctx context.Context) error {
		port, err := freePort()
		if err != nil {
			return err
		}
		c.controllers, err = run(c.dir, programs["kube-controller-manager"],
			"--kubeconfig="+c.Kubeconfig,
			"--controllers=garbage-collector-controller,namespace-controller,serviceaccount-token-controller",
			"--service-account-private-key-file=tokens.key",
			"--leader-elect=false", "--use-service-account-credentials=false",
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		)
		if err != nil {
			return err
		}
		return c.controllers.wait(ctx, func(ctx context.Context) error {
			return get(ctx, client, fmt.Sprintf("https://127.0.0.1:%d/healthz", port))
		})
	})
}
