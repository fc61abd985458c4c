package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

// duo are two clusters of a test's own: c1 exports, and c2 reads c1 through something that can be disturbed.
type duo struct {
	*stage
	way  *faultproxy.API
	back func() error // ends what away began
}

func newDuo(t *testing.T, timeout time.Duration, change ...func(*reconcile.Options)) *duo {
	t.Helper()
	set := pair.start(t)
	way, err := faultproxy.Before(set[0].Reader)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = way.Close() })
	kubeconfig, err := way.Kubeconfig(set[0].Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := set[1].Join(t.Context(), "c1", kubeconfig); err != nil {
		t.Fatal(err)
	}
	p := &duo{stage: newStage(t, set, 0, 1), way: way}
	p.run(0)
	p.run(1, append(change, func(o *reconcile.Options) { o.PeerTimeout = timeout })...)
	return p
}

func (p *duo) run(in int, change ...func(*reconcile.Options)) {
	p.Helper()
	if err := p.set[in].Run(context.WithoutCancel(p.Context()), change...); err != nil {
		p.Fatalf("start the controller of %s: %v", p.set[in].ID, err)
	}
}

func (p *duo) end(in int) {
	p.Helper()
	if err := p.set[in].End(); err != nil {
		p.Fatalf("the controller of %s ended with: %v", p.set[in].ID, err)
	}
}

func (p *duo) away() {
	p.Helper()
	resume, err := p.way.Refuse()
	if err != nil {
		p.Fatal(err)
	}
	p.back = resume
}

// heard is when c2 heard c1 last, by the Lease.
func (p *duo) heard() (time.Time, error) {
	lease := new(coordinationv1.Lease)
	if err := p.set[1].Admin.Get(p.Context(), client.ObjectKey{Namespace: SystemNamespace, Name: "c1"}, lease); err != nil {
		return time.Time{}, err
	}
	if lease.Spec.RenewTime == nil {
		return time.Time{}, errors.New("the Lease was never renewed")
	}
	return lease.Spec.RenewTime.Time, nil
}

// connected wants what the Lease's labels say of c1.
func (p *duo) connected(status, reason string) error {
	lease := new(coordinationv1.Lease)
	if err := p.set[1].Admin.Get(p.Context(), client.ObjectKey{Namespace: SystemNamespace, Name: "c1"}, lease); err != nil {
		return err
	}
	if got := lease.Labels["clusterset-dns.io/connected"]; got != status || reason != "" && lease.Labels["clusterset-dns.io/reason"] != reason {
		return fmt.Errorf("c1 is %v; want %s %s", lease.Labels, status, reason)
	}
	return nil
}

// passes lets c2's controller show that it works: it imports something of its own.
func (p *duo) passes(name string) {
	p.Helper()
	p.export(1, service(name), "10.9.2.1")
	p.until("the controller works", func() error { return p.imported(1, name, []string{"c2"}, "10.9.2.1") })
}

// C22, C24, C39, C40: an unreachable peer keeps its endpoints until its Lease expires. Then they
// are removed, and return with the peer. The import stays, with its address, because the export was
// not deleted. When the Secret is deleted, everything is removed at once.
func TestPeerAwayThenBackThenLeft(t *testing.T) {
	const timeout = 4 * time.Second
	p := newDuo(t, timeout)
	p.export(0, service("foo"), "10.9.1.1")
	p.export(0, service("both"), "10.9.1.2")
	p.export(1, service("both"), "10.9.2.2")
	all := func() error {
		return errors.Join(p.imported(1, "foo", []string{"c1"}, "10.9.1.1"), p.imported(1, "both", []string{"c1", "c2"}, "10.9.1.2", "10.9.2.2"), p.connected("True", "Connected"))
	}
	p.until("imported", all)
	before, err := p.imp(1, "foo")
	if err != nil {
		t.Fatal(err)
	}
	p.away()
	p.until("noticed", func() error { return p.connected("False", "Unreachable") })
	heard, err := p.heard()
	if err != nil {
		t.Fatal(err)
	}
	p.until("its time runs out", func() error {
		return errors.Join(p.imported(1, "foo", []string{"c1"}), p.imported(1, "both", []string{"c1", "c2"}, "10.9.2.2"))
	})
	if lasted := time.Since(heard); lasted < timeout {
		t.Errorf("C39: its endpoints were removed %s after the last contact; the timeout is %s", lasted, timeout)
	}
	if err := p.back(); err != nil {
		t.Fatal(err)
	}
	p.until("back", all)
	if after, err := p.imp(1, "foo"); err != nil || after.UID != before.UID || !slices.Equal(after.Spec.IPs, before.Spec.IPs) {
		t.Errorf("C24: ips were %v and are %v: %v", before.Spec.IPs, after.Spec.IPs, err)
	}
	if err := p.set[1].Leave(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	p.until("C40: left", func() error {
		return errors.Join(p.nothing(1, "foo"), p.imported(1, "both", []string{"c2"}, "10.9.2.2"))
	})
	p.until("its Lease", p.forgotten)
}

// A controller that ends while it removes a peer's imports continues after its restart. By then
// only the Lease contains that the peer has left, so the Lease stays until everything is removed.
func TestRestartWhileAPeerLeaves(t *testing.T) {
	p := newDuo(t, time.Minute)
	const names = 60
	for i := range names {
		p.export(0, service(fmt.Sprint("foo-", i)), "10.9.1.1")
	}
	last := fmt.Sprint("foo-", names-1)
	p.until("imported", func() error { return p.imported(1, last, []string{"c1"}, "10.9.1.1") })
	if err := p.set[1].Leave(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	p.until("the first import goes", func() error {
		var there mcsv1beta1.ServiceImportList
		err := p.set[1].Admin.List(t.Context(), &there, client.InNamespace(p.namespace))
		if err == nil && len(there.Items) == names {
			err = errors.New("all are there")
		}
		return err
	})
	p.end(1)
	p.run(1)
	for i := range names {
		p.until("left", func() error { return p.nothing(1, fmt.Sprint("foo-", i)) })
	}
	p.until("its Lease", p.forgotten)
}

// forgotten wants no Lease of c1 in c2.
func (p *duo) forgotten() error {
	err := p.set[1].Admin.Get(p.Context(), client.ObjectKey{Namespace: SystemNamespace, Name: "c1"}, new(coordinationv1.Lease))
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("it is there: %w", err)
	}
	return nil
}

// Absent is not empty: a controller that starts while a peer is away keeps everything from it, also
// if the peer is the only or the oldest exporter, and if an import changes meanwhile. With the
// timeout 0 that is forever; otherwise until the timeout.
func TestRestartWhilePeerIsAway(t *testing.T) {
	p := newDuo(t, 0)
	p.export(0, service("foo", withPorts(corev1.ServicePort{Name: "old", Port: 81})), "10.9.1.1")
	p.until("imported", func() error { return p.imported(1, "foo", []string{"c1"}, "10.9.1.1") })
	p.export(1, service("foo"), "10.9.2.1")
	p.until("imported", func() error { return p.imported(1, "foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.1") })
	before, err := p.imp(1, "foo")
	if err != nil {
		t.Fatal(err)
	}
	p.away()
	p.end(1)
	edit(p.stage, 1, new(discoveryv1.EndpointSlice), "foo-abc", func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Addresses = []string{"10.9.2.9"} })
	p.run(1, func(o *reconcile.Options) { o.PeerTimeout = 0 })
	p.passes("bar")
	p.until("the other's endpoints follow, c1's stay", func() error {
		return p.imported(1, "foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.9")
	})
	if after, err := p.imp(1, "foo"); err != nil || !equality.Semantic.DeepEqual(after.Spec, before.Spec) || after.UID != before.UID {
		t.Errorf("the import was\n%+v\nand is\n%+v\n%v", before.Spec, after.Spec, err)
	}
	p.delete(1, exportOf("foo"))
	p.until("what is left is c1's", func() error { return p.imported(1, "foo", []string{"c1"}, "10.9.1.1") })
	if err := p.back(); err != nil {
		t.Fatal(err)
	}
	p.until("back", func() error {
		return errors.Join(p.imported(1, "foo", []string{"c1"}, "10.9.1.1"), p.connected("True", "Connected"))
	})

	p.away()
	p.until("noticed", func() error { return p.connected("False", "") })
	p.end(1)
	p.run(1, func(o *reconcile.Options) { o.PeerTimeout = time.Second })
	p.until("its time is over", func() error { return p.imported(1, "foo", []string{"c1"}) })
	if err := p.set[1].Leave(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	p.until("left, and was never heard", func() error { return p.nothing(1, "foo") })
}

// What can happen on the way to a peer: nothing is lost by it, and afterwards what happened meanwhile is seen.
func TestFaultsOnTheWayToAPeer(t *testing.T) {
	p := newDuo(t, 0)
	p.export(0, service("foo"), "10.9.1.1")
	p.until("imported", func() error { return p.imported(1, "foo", []string{"c1"}, "10.9.1.1") })
	answer := func(err *apierrors.StatusError) func() func() {
		return func() func() {
			resume := p.way.Answer(err)
			p.way.Cut() // open watches would go on
			return resume
		}
	}
	const noticed = true // the peer's condition reports it meanwhile
	for i, f := range []struct {
		name    string
		begin   func() (end func())
		noticed bool
	}{
		{"connections that are cut", func() func() { p.way.Cut(); return func() {} }, false},
		{"nobody listens", func() func() { p.away(); return func() { _ = p.back() } }, noticed},
		{"slow", func() func() { return p.way.Slow(50 * time.Millisecond) }, false},
		{"half-open, going on later", p.way.Stall, noticed},
		{"half-open forever", func() func() { p.way.Strand(); return func() {} }, false},
		// Busy is not silent (docs/silent-clusters.md): only a heartbeat that stays away would be noticed, and much later.
		{"429", answer(apierrors.NewTooManyRequests("later", 1)), false},
		{"500", answer(apierrors.NewInternalError(errors.New("etcd is away"))), noticed},
		{"an expired token", answer(apierrors.NewUnauthorized("token has expired")), noticed},
		{"a right taken away", answer(apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "", errors.New("no right"))), noticed},
		{"a watch that is too old", func() func() { p.way.Expire(); return func() {} }, false},
		{"lists without content", func() func() {
			resume := p.way.Hollow()
			p.way.Cut()
			return resume
		}, noticed},
	} {
		t.Run(f.name, func(t *testing.T) {
			end := f.begin()
			address := fmt.Sprintf("10.9.1.%d", 10+i)
			edit(p.stage, 0, new(discoveryv1.EndpointSlice), "foo-abc", func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Addresses = []string{address} })
			if f.noticed {
				p.until("noticed", func() error { return p.connected("False", "") })
			}
			p.passes(fmt.Sprintf("bar-%d", i))
			imp, err := p.imp(1, "foo")
			if err != nil || len(imp.Spec.IPs) == 0 || len(imp.Status.Clusters) != 1 {
				t.Errorf("the import is %+v: %v", imp, err)
			}
			if now, err := p.endpoints(1, "foo", imp); err != nil || len(now) != 1 {
				t.Errorf("its endpoints are %v: %v", now, err)
			}
			end()
			p.until("seen afterwards", func() error {
				return errors.Join(p.imported(1, "foo", []string{"c1"}, address), p.connected("True", "Connected"))
			})
		})
	}
}

// Clocks of clusters that are a minute apart decide nothing but who is the oldest.
func TestClocksAMinuteApart(t *testing.T) {
	for _, shift := range []time.Duration{-time.Minute, time.Minute} {
		t.Run(shift.String(), func(t *testing.T) {
			p := newDuo(t, 4*time.Second, func(o *reconcile.Options) { o.Now = func() time.Time { return time.Now().Add(shift) } })
			p.export(0, service("foo"), "10.9.1.1")
			p.export(1, service("foo"), "10.9.2.1")
			for i := range p.set {
				p.until("imported", func() error { return p.imported(i, "foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.1") })
			}
			p.until("well", func() error {
				return errors.Join(p.healthy(0, "foo"), p.healthy(1, "foo"), p.connected("True", "Connected"))
			})
			heard, err := p.heard()
			if err != nil {
				t.Fatal(err)
			}
			p.until("renewed", func() error {
				if now, err := p.heard(); err != nil || !now.After(heard) {
					return errors.Join(err, errors.New("not yet"))
				}
				return nil
			})
			p.away()
			p.until("gone in time", func() error { return p.imported(1, "foo", []string{"c1", "c2"}, "10.9.2.1") })
		})
	}
}

// Taking the controller away leaves everything serving (point 7 of the issue); what is deleted then takes its parts with it.
func TestWithoutTheController(t *testing.T) {
	p := newDuo(t, time.Second)
	p.export(0, service("foo"), "10.9.1.1")
	p.until("imported", func() error { return p.imported(1, "foo", []string{"c1"}, "10.9.1.1") })
	p.end(1)
	p.end(0)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: SystemNamespace, Name: mcs.ControllerName}}
	if err := p.set[1].Admin.Delete(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.set[1].Install(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := p.imported(1, "foo", []string{"c1"}, "10.9.1.1"); err != nil {
		t.Error(err)
	}
	imp, err := p.imp(1, "foo")
	if err != nil {
		t.Fatal(err)
	}
	p.delete(1, imp)
	p.until("all of it", func() error { return p.nothing(1, "foo") })
}
