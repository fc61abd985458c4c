package reconcile

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// until polls a step of a scenario.
func until(t testing.TB, what string, step func() error) {
	t.Helper()
	kube.Eventually(t, what, step)
}

// reconciles returns the number of finished reconciles of all controllers in this process.
func reconciles(t testing.TB) int {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0.0
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_total" {
			for _, m := range family.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return int(n)
}

func TestProbesBeforeAndAfterTheCaches(t *testing.T) {
	cluster := shared.Cluster(t)
	probes, err := ListenProbes(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer probes.Close()
	status := func(path string) error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+probes.Address()+path, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		text, _ := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", response.Status, text)
		}
		return nil
	}
	if err := errors.Join(status("/healthz")); err != nil {
		t.Errorf("healthy from the first moment: %v", err)
	}
	if status("/readyz") == nil {
		t.Error("ready before there is a manager")
	}
	start(t, account(t, cluster), func(o *Options) { o.Probes = probes })
	until(t, "ready", func() error { return status("/readyz") })
}
