package reconcile

import (
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

// The controller continues after an outage of the API server, and deletes nothing because of it.
// The garbage collection of Kubernetes runs in this test. It deletes the derived Service of a
// deleted import, and keeps those of existing imports.
func TestOutageAndGarbageCollection(t *testing.T) {
	cluster := kube.New(t, kube.Options{})
	if err := errors.Join(cluster.InstallCRDs(t.Context(), kube.BothVersions), cluster.StartControllers(t.Context())); err != nil {
		t.Fatal(err)
	}
	start(t, cluster.Config, func(o *Options) { o.Poll = 2 * time.Second })
	p := newPlace(t, cluster)
	if err := p.create(imported("stays"), imported("goes")); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return errors.Join(p.served("stays"), p.served("goes")) })
	var m earlier
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

// Connections to the API server can hang forever, for example behind a load balancer that drops
// their state. HTTP/2 pings detect this after about 10 s. By default it takes 45 s.
func TestConnectionsThatHang(t *testing.T) {
	cluster := shared.Cluster(t)
	address, err := url.Parse(cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultproxy.Listen(address.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxy.Close() }()
	stop := start(t, proxy.Config(account(t, cluster)))
	p := newPlace(t, cluster)
	if err := p.create(imported("before")); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return p.served("before") })
	if proxy.Strand() == 0 {
		t.Fatal("there was no connection")
	}
	since := time.Now()
	if err := p.create(imported("meanwhile")); err != nil {
		t.Fatal(err)
	}
	until(t, "an import that was made meanwhile", func() error { return p.served("meanwhile") })
	took := time.Since(since)
	t.Logf("noticed after %.1f s", took.Seconds())
	if took > 35*time.Second {
		t.Errorf("that took %v", took)
	}
	if err := stop(); err != nil { // before the proxy closes
		t.Error(err)
	}
}

// A proxy that answers {} in the place of the API server does not answer that there are no objects.
func TestEmptyAnswerIsNotAnEmptyList(t *testing.T) {
	cluster := shared.Cluster(t)
	api, err := faultproxy.Before(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	p, config := newPlace(t, cluster), api.Config(account(t, cluster))
	if err := p.create(imported("foo"), plainService("foo"), endpoints("foo", "foo")); err != nil {
		t.Fatal(err)
	}
	crd := observed.CRD{APIVersion: mcsv1beta1.GroupVersion.String()}
	scheme, err := newScheme(crd)
	if err != nil {
		t.Fatal(err)
	}
	options, err := cacheOptions(config, crd, scheme, p.namespace)
	if err != nil {
		t.Fatal(err)
	}
	options.Scheme = scheme
	cached, err := cache.New(config, options)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = cached.Start(t.Context()) }()
	lists := func() (all []client.ObjectList) {
		return []client.ObjectList{&mcsv1beta1.ServiceImportList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}, &corev1.NamespaceList{}}
	}
	there := func() error {
		var missing []error
		for _, list := range lists() {
			if err := cached.List(t.Context(), list); err != nil || meta.LenList(list) == 0 {
				missing = append(missing, fmt.Errorf("%T is empty: %w", list, err))
			}
		}
		return errors.Join(missing...)
	}
	until(t, "everything is read", there)
	resume := api.Hollow()
	api.Cut()
	until(t, "each list is requested several times", func() error {
		if n := api.Replies(); n < 6*len(lists()) {
			return fmt.Errorf("only %d requests", n)
		}
		return nil
	})
	if err := there(); err != nil {
		t.Error(err)
	}
	resume()
	if err := p.create(plainService("late")); err != nil {
		t.Fatal(err)
	}
	until(t, "it continues", func() error {
		return cached.Get(t.Context(), p.key("late"), new(corev1.Service))
	})
}

// The gauge counts each import once, by the current status of its condition.
func TestGaugeOfImports(t *testing.T) {
	p, counts := alone(t)
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

// alone returns a place in a cluster without other imports, and a check of its controller's gauge.
// The controllers of other tests have stopped without a reset of the gauge, so their counts are
// subtracted.
func alone(t *testing.T) (p *place, counts func(ready, not int) func() error) {
	t.Helper()
	gauge := func(label string) int {
		var m dto.Metric
		if err := serviceImports.WithLabelValues(label).Write(&m); err != nil {
			t.Error(err)
		}
		return int(m.GetGauge().GetValue())
	}
	readyBefore, notBefore := gauge("ready"), gauge("not_ready")
	cluster := kube.New(t, kube.Options{})
	if err := cluster.InstallCRDs(t.Context(), kube.BothVersions); err != nil {
		t.Fatal(err)
	}
	start(t, cluster.Config)
	return newPlace(t, cluster), func(ready, not int) func() error {
		return func() error {
			if r, n := gauge("ready")-readyBefore, gauge("not_ready")-notBefore; r != ready || n != not {
				return fmt.Errorf("%d ready and %d not, want %d and %d", r, n, ready, not)
			}
			return nil
		}
	}
}
