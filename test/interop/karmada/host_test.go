package karmada

import (
	"context"
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/test/interop/beside"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/kube/pki"
)

// module has Karmada's programs, of the version that it pins.
var module = kube.Module{
	Dir:      "test/interop/programs/karmada",
	Requires: "github.com/karmada-io/karmada",
	Packages: map[string]string{
		"controller-manager": "github.com/karmada-io/karmada/cmd/controller-manager",
		"scheduler":          "github.com/karmada-io/karmada/cmd/scheduler",
		"webhook":            "github.com/karmada-io/karmada/cmd/webhook",
	},
	Usual: "about 7 minutes",
}

// host is a Karmada control plane: a kube-apiserver with what Karmada needs of kube-controller-manager, and Karmada's own
// programs. A CRD replaces the aggregated API server, which serves the kind Cluster.
type host struct {
	place
	cluster  *kube.Cluster
	programs map[string]string
	manager  *kube.Program
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
	programs, err := module.Build(ctx, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	source, err := module.Source(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// As Karmada starts its API server: its objects are templates, which no pod of this cluster uses.
	c, err := kube.Start(ctx, kube.Options{APIServerFlags: []string{"--disable-admission-plugins=ServiceAccount"}})
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
	health := beside.FreeAddress(t)
	h.start(t, "scheduler", health, "--health-probe-bind-address="+health, "--metrics-bind-address=0", "--leader-elect=false")
	return h
}

// startLimit is for a machine that does other work too.
const startLimit = 2 * time.Minute

// start runs one of Karmada's programs, and returns when it listens at an address that is in its flags.
func (h *host) start(t *testing.T, name, listens string, flags ...string) *kube.Program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	ready := func(ctx context.Context) error {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", listens)
		if err != nil {
			return err
		}
		return connection.Close()
	}
	b, err := h.cluster.Beside(ctx, ready, h.programs[name], append([]string{"--kubeconfig=" + h.kubeconfig, "--feature-gates=MultiClusterService=true"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// startManager starts the controller-manager, also after it was stopped. It looks at the members each second, so that tests wait less.
func (h *host) startManager(t *testing.T) {
	t.Helper()
	metrics := beside.FreeAddress(t)
	h.metrics = "http://" + metrics + "/metrics"
	h.manager = h.start(t, "controller-manager", metrics, "--metrics-bind-address="+metrics, "--health-probe-bind-address=0",
		"--leader-elect=false", "--cluster-status-update-frequency=1s", "-v=2")
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
	listens := beside.FreeAddress(t)
	h.start(t, "webhook", listens, "--bind-address=127.0.0.1", "--secure-port="+strings.TrimPrefix(listens, "127.0.0.1:"), "--cert-dir="+dir,
		"--metrics-bind-address=0", "--health-probe-bind-address=0")
	text, err := os.ReadFile(configuration)
	if err != nil {
		t.Fatal(err)
	}
	h.apply(t, strings.NewReplacer("{{caBundle}}", base64.StdEncoding.EncodeToString(ca.PEM()),
		"karmada-webhook.karmada-system.svc:443", listens).Replace(string(text)))
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
		t.Logf("%s:\n%s", name, kube.Tail(filepath.Join(filepath.Dir(h.kubeconfig), name+".log")))
	}
}
