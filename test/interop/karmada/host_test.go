package karmada

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
	"github.com/clusterset-dns/multicluster/test/controlplane/pki"
)

// host is a Karmada control plane: a kube-apiserver with what Karmada needs of kube-controller-manager, and Karmada's own
// programs. A CRD replaces the aggregated API server, which serves the kind Cluster.
type host struct {
	place
	cluster  *controlplane.Cluster
	programs map[string]string
	manager  *controlplane.Beside
	metrics  string // the URL of those of the controller-manager
}

// clusterCRD accepts what the controllers write. The API server that it replaces has the schema.
const clusterCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters.cluster.karmada.io}
spec:
  group: cluster.karmada.io
  names: {kind: Cluster, listKind: ClusterList, plural: clusters, singular: cluster}
  scope: Cluster
  versions:
    - name: v1alpha1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: v1
kind: Namespace
metadata: {name: karmada-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: karmada-cluster}
`

func startHost(t *testing.T) *host {
	t.Helper()
	ctx := t.Context()
	programs, err := Programs.Build(ctx, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	source, err := Programs.Source(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// As Karmada starts its API server: its objects are templates, which no pod of this cluster uses.
	c, err := controlplane.Start(ctx, controlplane.Options{APIServerFlags: []string{"--disable-admission-plugins=ServiceAccount"}})
	if err != nil {
		t.Fatal(err)
	}
	h := &host{place: place{"karmada", c.Kubeconfig}, cluster: c, programs: programs}
	t.Cleanup(func() {
		if t.Failed() {
			h.showLogs(t)
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	h.kubectl(t, "apply", "--server-side", "--recursive", "--filename", filepath.Join(source, "charts/karmada/_crds/bases"))
	h.apply(t, clusterCRD)
	if err := c.StartControllers(ctx); err != nil {
		t.Fatal(err)
	}
	h.startWebhook(t, filepath.Join(source, "artifacts/deploy/webhook-configuration.yaml"))
	h.startManager(t)
	h.start(t, "scheduler", "--leader-elect=false")
	return h
}

// start runs one of Karmada's programs and gives it an address for its health and one for its metrics.
func (h *host) start(t *testing.T, name string, flags ...string) (b *controlplane.Beside, metrics string) {
	t.Helper()
	health, metrics := address(t), address(t)
	ready := func(ctx context.Context) error {
		_, err := binaries.Get(ctx, "http://"+health+"/readyz")
		return err
	}
	b, err := h.cluster.Beside(t.Context(), ready, h.programs[name], append([]string{"--kubeconfig=" + h.kubeconfig,
		"--health-probe-bind-address=" + health, "--metrics-bind-address=" + metrics, "--feature-gates=MultiClusterService=true"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	return b, metrics
}

// startManager starts the controller-manager, also after it was stopped. It looks at the members each second, so that tests wait less.
func (h *host) startManager(t *testing.T) {
	t.Helper()
	var metrics string
	h.manager, metrics = h.start(t, "controller-manager", "--leader-elect=false", "--cluster-status-update-frequency=1s", "-v=2")
	h.metrics = "http://" + metrics + "/metrics"
}

// startWebhook starts the webhooks and then makes the API server use them: policies get their defaults there.
func (h *host) startWebhook(t *testing.T, configuration string) {
	t.Helper()
	ca, err := pki.New("karmada")
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.Server("karmada-webhook", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"tls.crt": server.Cert, "tls.key": server.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port, err := controlplane.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	h.start(t, "webhook", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--cert-dir="+dir)
	text, err := os.ReadFile(configuration)
	if err != nil {
		t.Fatal(err)
	}
	h.apply(t, strings.NewReplacer("{{caBundle}}", base64.StdEncoding.EncodeToString(ca.PEM()),
		"karmada-webhook.karmada-system.svc:443", fmt.Sprintf("127.0.0.1:%d", port)).Replace(string(text)))
}

// counted is the sum of the samples of one metric of the controller-manager whose labels contain a text.
func (h *host) counted(ctx context.Context, metric, labels string) (sum int, err error) {
	text, err := binaries.Get(ctx, h.metrics)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, metric+"{") && strings.Contains(line, labels) {
			fields := strings.Fields(line)
			n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				return 0, err
			}
			sum += int(n)
		}
	}
	return sum, nil
}

func (h *host) showLogs(t *testing.T) {
	for name := range h.programs {
		t.Logf("%s:\n%s", name, controlplane.Tail(filepath.Join(filepath.Dir(h.kubeconfig), name+".log")))
	}
}

func address(t *testing.T) string {
	t.Helper()
	port, err := controlplane.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
