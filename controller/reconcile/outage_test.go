package reconcile

import (
	"errors"
	"fmt"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/realkube"
)

// The controller lives through an outage of the API server, deletes nothing because of it, and goes on. Garbage collection, real
// here, takes the derived Service with its import and leaves those of living imports.
func TestOutageAndGarbageCollection(t *testing.T) {
	cluster := realkube.New(t, realkube.Options{})
	if err := errors.Join(cluster.InstallCRDs(t.Context(), realkube.BothVersions), cluster.StartControllerManager(t.Context())); err != nil {
		t.Fatal(err)
	}
	start(t, cluster.Config, func(o *Options) { o.Poll = 2 * time.Second })
	p := newPlace(t, cluster)
	if err := p.create(imported("stays"), imported("goes")); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return errors.Join(p.served("stays"), p.served("goes")) })
	var m memory
	if err := p.remember("derived-stays", &m); err != nil {
		t.Fatal(err)
	}

	cluster.StopAPIServer()
	if err := cluster.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "one more import after the outage", func() error {
		if err := p.create(imported("late")); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return p.served("late")
	})
	if err := errors.Join(p.served("stays"), p.addressStays("stays", m)); err != nil {
		t.Error(err)
	}

	if err := p.Delete(p.ctx, imported("goes", inNamespace(p.namespace))); err != nil {
		t.Fatal(err)
	}
	until(t, "collected", func() error {
		if _, err := p.svc("derived-goes"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Service is still there: %w", err)
		}
		return nil
	})
	if err := errors.Join(p.served("stays"), p.served("late"), p.addressStays("stays", m)); err != nil {
		t.Error(err)
	}
}

// The gauge counts each import once, under what its condition says now.
func TestGaugeOfImports(t *testing.T) {
	cluster := shared.Cluster(t)
	before := reconciles(t)
	start(t, account(t, cluster))
	p := newPlace(t, cluster)
	gauge := func(label string) int {
		var m dto.Metric
		if err := serviceImports.WithLabelValues(label).Write(&m); err != nil {
			t.Error(err)
		}
		return int(m.GetGauge().GetValue())
	}
	// The imports of other tests are counted first; the counts of their controllers, which ended with no process, stay below.
	var all mcsv1beta1.ServiceImportList
	if err := p.List(p.ctx, &all); err != nil {
		t.Fatal(err)
	}
	until(t, "the imports of other tests counted", func() error {
		if done := reconciles(t) - before; done < len(all.Items) {
			return fmt.Errorf("%d of %d", done, len(all.Items))
		}
		return nil
	})
	readyBefore, notBefore := gauge("ready"), gauge("not_ready")
	counts := func(ready, not int) func() error {
		return func() error {
			if r, n := gauge("ready")-readyBefore, gauge("not_ready")-notBefore; r != ready || n != not {
				return fmt.Errorf("%d ready and %d not, want %d and %d", r, n, ready, not)
			}
			return nil
		}
	}
	noPorts := func(imp *mcsv1beta1.ServiceImport) { imp.Spec.Ports = []mcsv1beta1.ServicePort{} }
	if err := p.create(imported("good"), imported("bad", noPorts)); err != nil {
		t.Fatal(err)
	}
	until(t, "one of each", counts(1, 1))
	if err := p.edit("good", noPorts); err != nil {
		t.Fatal(err)
	}
	until(t, "both bad", counts(0, 2))
	if err := errors.Join(p.Delete(p.ctx, imported("good", inNamespace(p.namespace))), p.Delete(p.ctx, imported("bad", inNamespace(p.namespace)))); err != nil {
		t.Fatal(err)
	}
	until(t, "both gone", counts(0, 0))
}
