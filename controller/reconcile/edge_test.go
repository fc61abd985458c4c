package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// The API server releases an address a moment after the event of the Service's deletion. A
// controller that is fast enough gets an error because the address is taken. The import must still
// keep its address (C24).
func TestAddressThatIsNotReleasedYetIsAskedForAgain(t *testing.T) {
	cluster := shared.Cluster(t)
	wire := newWire()
	start(t, wire.config(account(t, cluster)))
	p := newPlace(t, cluster)
	if err := p.create(imported("foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return p.served("foo") })
	var m earlier
	wire.mu.Lock()
	wire.busy = 3
	wire.mu.Unlock()
	if err := errors.Join(p.remember("derived-foo", &m), p.Delete(p.ctx, plain(p, "derived-foo"))); err != nil {
		t.Fatal(err)
	}
	until(t, "served again", func() error { return p.served("foo") })
	if err := p.addressStays("foo", m); err != nil {
		t.Error(err)
	}
}

// C15: a value that a Service cannot have affects only that value, and no other import.
func TestBadImportsBesideGoodOnes(t *testing.T) {
	cluster := shared.Cluster(t)
	start(t, account(t, cluster))
	p := newPlace(t, cluster)
	port := func(ports ...mcsv1beta1.ServicePort) func(*mcsv1beta1.ServiceImport) {
		return func(imp *mcsv1beta1.ServiceImport) { imp.Spec.Ports = ports }
	}
	for _, imp := range []*mcsv1beta1.ServiceImport{
		imported("no-ports", port([]mcsv1beta1.ServicePort{}...), func(i *mcsv1beta1.ServiceImport) { i.Spec.Ports = []mcsv1beta1.ServicePort{} }),
		imported("zero", port(mcsv1beta1.ServicePort{Port: 0})),
		imported("mixed", port(mcsv1beta1.ServicePort{Port: 80}, mcsv1beta1.ServicePort{Name: "https", Port: 443}, mcsv1beta1.ServicePort{Name: "big", Port: 70000},
			mcsv1beta1.ServicePort{Name: "Bad_Name", Port: 81}, mcsv1beta1.ServicePort{Name: "icmp", Port: 82, Protocol: "ICMP"}, mcsv1beta1.ServicePort{Name: "https", Port: 444})),
		imported("distribution", func(i *mcsv1beta1.ServiceImport) {
			i.Spec.TrafficDistribution, i.Spec.InternalTrafficPolicy = new("Nearby"), new(corev1.ServiceInternalTrafficPolicy("Sometimes"))
			i.Spec.SessionAffinity = "Sticky"
		}),
		imported("named-badly", func(i *mcsv1beta1.ServiceImport) {
			i.Annotations = map[string]string{mcs.AnnotationDerivedService: "Not_A_Name"}
		}),
		imported("no-address", withIPs("nonsense")),
		imported("not-a-vip", withIPs("127.0.0.1", "0.0.0.0")),
		imported("copied", withIPs("10.0.0.1")), // the address of default/kubernetes
		imported("half-an-address", withIPs("1.2.3.4", "nonsense")),
		imported("my.dotted.name"),
		imported(strings.Repeat("long", 15)),
		imported("good"),
	} {
		if err := p.create(imp); err != nil {
			t.Fatalf("%s: %v", imp.Name, err)
		}
	}
	for _, want := range []struct {
		name   string
		status metav1.ConditionStatus
		reason string
		event  string
	}{
		{"no-ports", metav1.ConditionFalse, desired.ReasonNoPorts, desired.ReasonNoPorts},
		{"zero", metav1.ConditionFalse, desired.ReasonNoPorts, desired.ReasonNoPorts},
		{"mixed", metav1.ConditionTrue, "Ready", desired.EventPartlyServed}, // its port 70000
		{"distribution", metav1.ConditionTrue, "Ready", desired.EventPartlyServed},
		{"named-badly", metav1.ConditionFalse, desired.ReasonInvalidName, desired.ReasonInvalidName},
		{"no-address", metav1.ConditionFalse, desired.ReasonInvalidIPs, desired.ReasonInvalidIPs},
		{"not-a-vip", metav1.ConditionFalse, desired.ReasonInvalidIPs, desired.ReasonInvalidIPs},
		{"copied", metav1.ConditionFalse, desired.ReasonInvalidIPs, desired.ReasonInvalidIPs},
		{"half-an-address", metav1.ConditionTrue, "Ready", desired.EventPartlyServed},
		{"my.dotted.name", metav1.ConditionTrue, "Ready", desired.EventPartlyServed},
		{strings.Repeat("long", 15), metav1.ConditionTrue, "Ready", "Ready"},
		{"good", metav1.ConditionTrue, "Ready", "Ready"},
	} {
		until(t, want.name, func() error {
			imp, err := p.imp(want.name)
			return errors.Join(err, ready(imp, want.status, want.reason), p.told(want.name, want.event))
		})
	}
	for _, name := range []string{"mixed", "distribution", "my.dotted.name", strings.Repeat("long", 15), "good"} {
		until(t, name, func() error { return p.served(name) })
	}
	svc, err := p.svc("derived-mixed")
	if err != nil || len(svc.Spec.Ports) != 2 || svc.Spec.Ports[0].Name != "unnamed-80-tcp" {
		t.Errorf("the ports of the mixed import: %+v, %v", svc.Spec.Ports, err)
	}
}

// Concurrent updates lose nothing. Users and controllers write the same import, its Service and its
// slices continuously. At the end each user's write exists, and ips are correct.
func TestTwoUpdatesAtOnceLoseNothing(t *testing.T) {
	cluster := shared.Cluster(t)
	wire := newWire()
	start(t, wire.config(account(t, cluster)))
	p := newPlace(t, cluster)
	if err := p.create(imported("foo"), endpoints("foo-c2", "foo")); err != nil {
		t.Fatal(err)
	}
	const users, rounds = 4, 15
	var group sync.WaitGroup
	for user := range users {
		group.Go(func() {
			for round := range rounds {
				err := p.edit("foo", func(imp *mcsv1beta1.ServiceImport) {
					if imp.Labels == nil {
						imp.Labels = map[string]string{}
					}
					imp.Labels[fmt.Sprintf("user-%d-%d", user, round)] = "set"
					switch user {
					case 0: // the controller must write, because the addresses change
						imp.Spec.IPs = [][]string{{"1.2.3.4"}, nil}[round%2]
					case 1:
						imp.Spec.Type = []mcsv1beta1.ServiceImportType{mcsv1beta1.Headless, mcsv1beta1.ClusterSetIP}[round%2]
					case 2:
						imp.Spec.Ports = append(imp.Spec.Ports, mcsv1beta1.ServicePort{Name: fmt.Sprintf("port-%d", round), Port: int32(1000 + round)})
					}
				})
				if err != nil {
					t.Errorf("user %d: %v", user, err)
				}
				if user == 3 && round%5 == 0 {
					if err := p.Delete(p.ctx, plain(p, "derived-foo")); client.IgnoreNotFound(err) != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	if err := p.edit("foo", func(imp *mcsv1beta1.ServiceImport) {
		imp.Spec.IPs, imp.Spec.Type = nil, mcsv1beta1.ClusterSetIP
		delete(imp.Annotations, mcs.AnnotationVIPs)
	}); err != nil {
		t.Fatal(err)
	}
	until(t, "settled", func() error { return errors.Join(p.served("foo"), p.label("foo-c2", "derived-foo")) })
	imp, svc, err := p.both("foo")
	if err != nil {
		t.Fatal(err)
	}
	if len(imp.Labels) != users*rounds || len(imp.Spec.Ports) != 1+rounds || len(svc.Spec.Ports) != 1+rounds {
		t.Errorf("of %d labels and %d ports the import has %d and %d, the Service %d ports",
			users*rounds, 1+rounds, len(imp.Labels), len(imp.Spec.Ports), len(svc.Spec.Ports))
	}
}

// Fields that other writers set on a derived Service stay.
func TestOthersFieldsOnTheDerivedServiceStay(t *testing.T) {
	cluster := shared.Cluster(t)
	start(t, account(t, cluster))
	p := newPlace(t, cluster)
	if err := p.create(imported("foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return p.served("foo") })
	svc, err := p.svc("derived-foo")
	if err != nil {
		t.Fatal(err)
	}
	svc.Annotations, svc.Labels["theirs"] = map[string]string{"note": "theirs"}, "too"
	svc.Spec.Type = corev1.ServiceTypeNodePort
	svc.Spec.Selector = map[string]string{"app": "foo"}
	if err := p.Update(p.ctx, svc); err != nil && !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	nodePort := svc.Spec.Ports[0].NodePort
	if err := p.edit("foo", func(imp *mcsv1beta1.ServiceImport) { imp.Spec.Ports[0].Port = 8080 }); err != nil {
		t.Fatal(err)
	}
	until(t, "followed", func() error {
		svc, err := p.svc("derived-foo")
		switch {
		case err != nil:
			return err
		case svc.Spec.Ports[0].Port != 8080 || svc.Spec.Selector != nil:
			return fmt.Errorf("ports %v, selector %v", svc.Spec.Ports, svc.Spec.Selector)
		case svc.Spec.Ports[0].NodePort != nodePort || nodePort == 0 || svc.Annotations["note"] != "theirs" || svc.Labels["theirs"] != "too":
			return fmt.Errorf("lost: nodePort %d of %d, annotations %v, labels %v", svc.Spec.Ports[0].NodePort, nodePort, svc.Annotations, svc.Labels)
		}
		return nil
	})
}

// BenchmarkIPsFilled measures the time from the creation of an import until its ips are set, as a
// watching client sees it.
func BenchmarkIPsFilled(b *testing.B) {
	cluster := shared.Cluster(b)
	start(b, account(b, cluster))
	p := newPlace(b, cluster)
	scheme, err := newScheme(observed.CRD{APIVersion: mcsv1beta1.GroupVersion.String()})
	if err != nil {
		b.Fatal(err)
	}
	watching, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		b.Fatal(err)
	}
	watch, err := watching.Watch(b.Context(), &mcsv1beta1.ServiceImportList{}, client.InNamespace(p.namespace))
	if err != nil {
		b.Fatal(err)
	}
	defer watch.Stop()
	wait := func(name string) {
		for event := range watch.ResultChan() {
			if imp, ok := event.Object.(*mcsv1beta1.ServiceImport); ok && imp.Name == name && len(imp.Spec.IPs) > 0 {
				return
			}
		}
		b.Fatal("the watch has ended")
	}
	if err := p.create(imported("first")); err != nil {
		b.Fatal(err)
	}
	wait("first") // the controller is running
	b.ResetTimer()
	for i := range b.N {
		name := fmt.Sprintf("foo-%d", i)
		if err := p.create(imported(name)); err != nil {
			b.Fatal(err)
		}
		wait(name)
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/import")
}
