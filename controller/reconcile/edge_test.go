package reconcile

import (
	"errors"
	"fmt"
	"slices"
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

// R9: the reference controllers adopt a Service only because it has the name.
func TestForeignServiceStaysAndTheImportReportsIt(t *testing.T) {
	cluster := shared.Cluster(t)
	start(t, account(t, cluster))
	p := newPlace(t, cluster)
	if err := p.create(plainService("derived-foo"), imported("foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "told", func() error {
		imp, err := p.imp("foo")
		return errors.Join(err, ready(imp, metav1.ConditionFalse, desired.ReasonForeignService), p.told("foo", desired.ReasonForeignService), p.untouched("derived-foo"))
	})
	// Each solution in the message works. First: set the annotation.
	if err := p.edit("foo", func(imp *mcsv1beta1.ServiceImport) {
		imp.Annotations = map[string]string{mcs.AnnotationDerivedService: "derived-foo"}
	}); err != nil {
		t.Fatal(err)
	}
	until(t, "used as it is", func() error {
		imp, err := p.imp("foo")
		return errors.Join(err, ready(imp, metav1.ConditionTrue, "Ready"), p.has("foo", 1), p.untouched("derived-foo"))
	})
	// Second: delete the Service.
	if err := p.Delete(p.ctx, plain(p, "derived-foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "made by us", func() error {
		svc, err := p.svc("derived-foo")
		if err == nil && svc.Labels[mcs.LabelManagedBy] != mcs.ControllerName {
			err = errors.New("not ours")
		}
		return err
	})
}

// A Service that takes the name while no controller runs gets no endpoints, and the name's DNS does
// not get the former address. After the deletion of that Service the import has its address again
// (C24).
func TestForeignServiceUnderTheDerivedNameGetsNothing(t *testing.T) {
	cluster := shared.Cluster(t)
	config := account(t, cluster)
	stop := start(t, config)
	p := newPlace(t, cluster)
	if err := p.create(imported("foo"), endpoints("foo-c2", "foo")); err != nil {
		t.Fatal(err)
	}
	served := func() error { return errors.Join(p.served("foo"), p.label("foo-c2", "derived-foo")) }
	until(t, "served", served)
	var m memory
	if err := errors.Join(stop(), p.remember("derived-foo", &m), p.Delete(p.ctx, plain(p, "derived-foo")), p.create(plainService("derived-foo"))); err != nil {
		t.Fatal(err)
	}
	start(t, config)
	until(t, "taken back", func() error {
		imp, err := p.imp("foo")
		return errors.Join(err, ready(imp, metav1.ConditionFalse, desired.ReasonForeignService), p.has("foo", 0), p.label("foo-c2", ""), p.untouched("derived-foo"))
	})
	if err := p.Delete(p.ctx, plain(p, "derived-foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "served again", served)
	if err := p.addressStays("foo", m); err != nil {
		t.Error(err)
	}
}

// C24 as far as possible: another Service got the address while no controller ran.
func TestTakenAddressIsReplacedWithAnEvent(t *testing.T) {
	cluster := shared.Cluster(t)
	config := account(t, cluster)
	stop := start(t, config)
	p := newPlace(t, cluster)
	if err := p.create(imported("foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return p.served("foo") })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	var m memory
	thief := plainService("thief")
	if err := errors.Join(p.remember("derived-foo", &m), p.Delete(p.ctx, plain(p, "derived-foo"))); err != nil {
		t.Fatal(err)
	}
	thief.Spec.ClusterIP = m.ip
	if err := p.create(thief); err != nil {
		t.Fatal(err)
	}
	start(t, config)
	until(t, "another address", func() error {
		return errors.Join(p.served("foo"), p.told("foo", desired.EventAddressChanged))
	})
	if p.addressStays("foo", m) == nil {
		t.Errorf("%s is still the address", m.ip)
	}
}

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
	var m memory
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

// A Service in another namespace gets a VIP as its ClusterIP. It receives its traffic at once, and
// the import is not ready until that Service is deleted.
func TestVIPThatBecomesAClusterIPIsGivenUp(t *testing.T) {
	cluster := shared.Cluster(t)
	start(t, account(t, cluster))
	p, elsewhere := newPlace(t, cluster), newPlace(t, cluster)
	const vip = "10.0.77.77"
	if err := p.create(imported("foo", withIPs(vip))); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return p.servedOn("foo", vip) })
	owner := plainService("owner")
	owner.Spec.ClusterIP = vip
	if err := elsewhere.create(owner); err != nil {
		t.Fatal(err)
	}
	until(t, "given up", func() error {
		imp, err := p.imp("foo")
		svc, err2 := p.svc("derived-foo")
		if svc.Spec.Type != corev1.ServiceTypeClusterIP || len(svc.Status.LoadBalancer.Ingress) > 0 {
			err = errors.Join(err, fmt.Errorf("a %s with ingress %v", svc.Spec.Type, svc.Status.LoadBalancer.Ingress))
		}
		return errors.Join(err, err2, ready(imp, metav1.ConditionFalse, desired.ReasonInvalidIPs), p.told("foo", desired.ReasonInvalidIPs))
	})
	if err := elsewhere.Delete(p.ctx, plain(elsewhere, "owner")); err != nil {
		t.Fatal(err)
	}
	until(t, "served again", func() error { return p.servedOn("foo", vip) })
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

// R8, C35: slices of other owners keep their labels. The controller creates a copy of each slice
// for kube-proxy, except for the slices of the cluster's own controllers.
func TestSlicesOfTheClustersOwnControllersAreNotTouched(t *testing.T) {
	cluster := shared.Cluster(t)
	start(t, account(t, cluster))
	p := newPlace(t, cluster)
	err := p.create(
		endpoints("own", "foo", "endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io", "kubernetes.io/service-name", "foo"),
		endpoints("mirrored", "foo", "endpointslice.kubernetes.io/managed-by", "endpointslicemirroring-controller.k8s.io"),
		endpoints("astray", "foo", "kubernetes.io/service-name", "derived-bar"),
		endpoints("new", "foo"),
		imported("foo"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "led", func() error {
		return errors.Join(p.served("foo"), p.label("new", "derived-foo"), p.label("astray", "derived-foo"), p.label("own", "foo"), p.label("mirrored", ""))
	})
}

// K4: a condition and an event are written when they change, not on each reconcile.
func TestNothingIsWrittenWhereNothingChanges(t *testing.T) {
	cluster := shared.Cluster(t)
	wire := newWire()
	start(t, wire.config(account(t, cluster)))
	p := newPlace(t, cluster)
	if err := p.create(imported("foo"), imported("bad", func(i *mcsv1beta1.ServiceImport) { i.Spec.Ports = []mcsv1beta1.ServicePort{} })); err != nil {
		t.Fatal(err)
	}
	until(t, "settled", func() error { return errors.Join(p.served("foo"), p.told("bad", desired.ReasonNoPorts)) })
	writes, done := wire.allWrites(), reconciles(t)
	// A label of a user is an event for the controller, but no reason to write.
	for round := range 5 {
		for _, name := range []string{"foo", "bad"} {
			if err := p.edit(name, func(imp *mcsv1beta1.ServiceImport) { imp.Labels = map[string]string{"round": fmt.Sprint(round)} }); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "reconciled", func() error {
			if reconciles(t) < done+2*(round+1) {
				return errors.New("not yet")
			}
			return nil
		})
	}
	if n := wire.allWrites() - writes; n > 0 {
		t.Errorf("%d writes", n)
	}
	if err := errors.Join(p.told("bad", desired.ReasonNoPorts), p.told("foo", "Ready")); err != nil {
		t.Error(err)
	}
}

// R2, R4: the reference controllers, or Cilium, keep a Service under the name that they write into
// the annotation. The controller does not write that Service, whatever its address is. If the
// import becomes Headless, only its ips are removed.
func TestAServiceThatAnotherControllerKeepsIsFollowed(t *testing.T) {
	cluster := shared.Cluster(t)
	start(t, account(t, cluster))
	p := newPlace(t, cluster)
	imp := imported("serve", func(i *mcsv1beta1.ServiceImport) {
		i.Annotations = map[string]string{mcs.AnnotationDerivedService: "derived-0p6lqce99d"}
	})
	if err := errors.Join(p.create(plainService("derived-0p6lqce99d")), p.create(imp)); err != nil {
		t.Fatal(err)
	}
	follows := func() error {
		imp, err := p.imp("serve")
		svc, err2 := p.svc("derived-0p6lqce99d")
		if !slices.Equal(imp.Spec.IPs, svc.Spec.ClusterIPs) {
			err = fmt.Errorf("ips are %v, the Service has %v", imp.Spec.IPs, svc.Spec.ClusterIPs)
		}
		return errors.Join(err, err2, ready(imp, metav1.ConditionTrue, "Ready"), p.untouched("derived-0p6lqce99d"))
	}
	until(t, "followed", follows)
	if err := p.edit("serve", ofType(mcsv1beta1.Headless)); err != nil {
		t.Fatal(err)
	}
	until(t, "headless", func() error { return errors.Join(p.has("serve", 0), p.untouched("derived-0p6lqce99d")) })
	if err := p.edit("serve", ofType(mcsv1beta1.ClusterSetIP)); err != nil {
		t.Fatal(err)
	}
	until(t, "followed again", follows)
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
