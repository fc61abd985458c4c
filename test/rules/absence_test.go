package rules

import (
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
	"github.com/clusterset-dns/multicluster/test/world"
)

// withTimeout gives the timeout of peers.
func withTimeout(timeout time.Duration) world.Option {
	return func(o *reconcile.Options) { o.PeerTimeout = timeout }
}

// reads gives a namespace of the two clusters, with their controllers: c1 exports, and c2 reads c1 through a way that can be disturbed.
func reads(t *testing.T, timeout time.Duration, change ...world.Option) *world.Namespace {
	t.Helper()
	w := world.Two(t)
	ns := w.Namespace()
	w.Run("c1")
	w.Run("c2", append(change, withTimeout(timeout))...)
	return ns
}

// away lets nobody listen on the way to c1, until back is called.
func away(s *world.Namespace) (back func() error) {
	s.Helper()
	back, err := s.Way.Refuse()
	s.Must(err)
	return back
}

// heard is when c2 heard c1 last, by the Lease.
func heard(s *world.Namespace) time.Time {
	s.Helper()
	lease := world.Live(s.System(), "c2", new(coordinationv1.Lease), "c1")
	if lease.Spec.RenewTime == nil {
		s.Fatal("the Lease was never renewed")
	}
	return lease.Spec.RenewTime.Time
}

// connected wants what the Lease's labels say of c1: a status, a reason, or both.
func connected(s *world.Namespace, status, reason string) error {
	lease := leaseOf("c1")
	if err := s.Admin("c2").Get(s.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
		return err
	}
	if got := lease.Labels["clusterset-dns.io/connected"]; status != "" && got != status || reason != "" && lease.Labels["clusterset-dns.io/reason"] != reason {
		return fmt.Errorf("c1 is %v; want %s %s", lease.Labels, status, reason)
	}
	return nil
}

// stays notes some imports of a cluster. The returned function wants each to be the same object still, with the same addresses.
func stays(s *world.Namespace, id string, names ...string) (still func()) {
	s.Helper()
	before := map[string]*mcsv1beta1.ServiceImport{}
	for _, name := range names {
		before[name] = s.MustImport(id, name)
	}
	return func() {
		s.Helper()
		for name, was := range before {
			if is := s.MustImport(id, name); is.UID != was.UID || !slices.Equal(is.Spec.IPs, was.Spec.IPs) {
				s.Errorf("C24: import %s had the UID %s and ips %v, and has %s and %v", name, was.UID, was.Spec.IPs, is.UID, is.Spec.IPs)
			}
		}
	}
}

// works lets c2's controller show that it has seen everything up to now: it imports something new of its own.
func works(s *world.Namespace, name string) {
	s.Helper()
	s.Export("c2", world.Service(name), "10.9.2.9")
	s.Until("the controller works", func() error { return s.Imported("c2", name, []string{"c2"}, "10.9.2.9") })
}

// leave lets c1 leave c2.
func leave(s *world.Namespace) {
	s.Helper()
	s.Must(s.Cluster("c2").Leave(s.Context(), "c1"))
}

// C22, C24, C39, C40: an unreachable peer keeps its endpoints until its Lease expires. Then they
// are removed, and return with the peer. The import stays, with its address, because the export was
// not deleted. When the Secret is deleted, everything is removed at once.
func TestPeerAwayThenBackThenLeft(t *testing.T) {
	const timeout = 4 * time.Second
	s := reads(t, timeout)
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Export("c1", world.Service("both"), "10.9.1.2")
	s.Export("c2", world.Service("both"), "10.9.2.2")
	all := func() error {
		return errors.Join(s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1"), s.Imported("c2", "both", []string{"c1", "c2"}, "10.9.1.2", "10.9.2.2"), connected(s, "True", "Connected"))
	}
	s.Until("imported", all)
	still := stays(s, "c2", "foo")
	back := away(s)
	s.Until("noticed", func() error { return connected(s, "False", "Unreachable") })
	contact := heard(s)
	s.Until("its time runs out", func() error {
		return errors.Join(s.Imported("c2", "foo", []string{"c1"}), s.Imported("c2", "both", []string{"c1", "c2"}, "10.9.2.2"))
	})
	if lasted := time.Since(contact); lasted < timeout {
		t.Errorf("C39: its endpoints were removed %s after the last contact; the timeout is %s", lasted, timeout)
	}
	s.Must(back())
	s.Until("back", all)
	still()
	leave(s)
	s.Until("C40: left", func() error {
		return errors.Join(s.Nothing("c2", "foo"), s.Imported("c2", "both", []string{"c2"}, "10.9.2.2"))
	})
	s.Until("its Lease goes", func() error { return s.System().Gone("c2", new(coordinationv1.Lease), "c1") })
}

// A controller that ends while it removes a peer's imports continues after its restart. By then
// only the Lease contains that the peer has left, so the Lease stays until everything is removed.
func TestRestartWhileAPeerLeaves(t *testing.T) {
	s := reads(t, time.Minute)
	const names = 60
	for i := range names {
		s.Export("c1", world.Service(fmt.Sprint("foo-", i)), "10.9.1.1")
	}
	last := fmt.Sprint("foo-", names-1)
	s.Until("imported", func() error { return s.Imported("c2", last, []string{"c1"}, "10.9.1.1") })
	leave(s)
	s.Until("the first import goes", func() error {
		var there mcsv1beta1.ServiceImportList
		err := s.Admin("c2").List(t.Context(), &there, client.InNamespace(s.Name))
		if err == nil && len(there.Items) == names {
			err = errors.New("all are there")
		}
		return err
	})
	s.End("c2")
	s.Run("c2")
	for i := range names {
		s.Until("left", func() error { return s.Nothing("c2", fmt.Sprint("foo-", i)) })
	}
	s.Until("its Lease goes", func() error { return s.System().Gone("c2", new(coordinationv1.Lease), "c1") })
}

// Absent is not empty: a controller that starts while a peer is away keeps everything from it, also
// if the peer is the only or the oldest exporter, and if an import changes meanwhile. With the
// timeout 0 that is forever; otherwise until the timeout.
func TestRestartWhilePeerIsAway(t *testing.T) {
	s := reads(t, 0)
	s.Export("c1", world.Service("foo", world.Ports(corev1.ServicePort{Name: "old", Port: 81})), "10.9.1.1")
	s.Until("imported", func() error { return s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1") })
	s.Export("c2", world.Service("foo"), "10.9.2.1")
	s.Until("imported", func() error { return s.Imported("c2", "foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.1") })
	before := s.MustImport("c2", "foo")
	back := away(s)
	s.End("c2")
	world.Edit(s, "c2", new(discoveryv1.EndpointSlice), "foo-abc", func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Addresses = []string{"10.9.2.9"} })
	s.Run("c2", withTimeout(0))
	works(s, "bar")
	s.Until("the other's endpoints follow, c1's stay", func() error {
		return s.Imported("c2", "foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.9")
	})
	if after := s.MustImport("c2", "foo"); !equality.Semantic.DeepEqual(after.Spec, before.Spec) || after.UID != before.UID {
		t.Errorf("the import was\n%+v\nand is\n%+v", before.Spec, after.Spec)
	}
	s.Delete("c2", world.Export("foo"))
	s.Until("what is left is c1's", func() error { return s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1") })
	s.Must(back())
	s.Until("back", func() error {
		return errors.Join(s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1"), connected(s, "True", "Connected"))
	})

	away(s)
	s.Until("noticed", func() error { return connected(s, "False", "") })
	s.End("c2")
	s.Run("c2", withTimeout(time.Second))
	s.Until("its time is over", func() error { return s.Imported("c2", "foo", []string{"c1"}) })
	leave(s)
	s.Until("left, and was never heard", func() error { return s.Nothing("c2", "foo") })
}

// What can happen on the way to a peer: nothing is lost by it, and afterwards what happened meanwhile is seen.
func TestFaultsOnTheWayToAPeer(t *testing.T) {
	s := reads(t, 0)
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Until("imported", func() error { return s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1") })
	answer := func(err *apierrors.StatusError) func() func() {
		return func() func() {
			resume := s.Way.Answer(err)
			s.Way.Cut() // open watches would go on
			return resume
		}
	}
	const noticed = true // the peer's condition reports it meanwhile
	for i, f := range []struct {
		name    string
		begin   func() (end func())
		noticed bool
	}{
		{"connections that are cut", func() func() { s.Way.Cut(); return func() {} }, false},
		{"nobody listens", func() func() {
			back := away(s)
			return func() { _ = back() }
		}, noticed},
		{"slow", func() func() { return s.Way.Slow(50 * time.Millisecond) }, false},
		{"half-open, going on later", s.Way.Stall, noticed},
		{"half-open forever", func() func() { s.Way.Strand(); return func() {} }, false},
		// Busy is not silent (docs/silent-clusters.md): only a heartbeat that stays away would be noticed, and much later.
		{"429", answer(apierrors.NewTooManyRequests("later", 1)), false},
		{"500", answer(apierrors.NewInternalError(errors.New("etcd is away"))), noticed},
		{"an expired token", answer(apierrors.NewUnauthorized("token has expired")), noticed},
		{"a right taken away", answer(apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "", errors.New("no right"))), noticed},
		{"a watch that is too old", func() func() { s.Way.Expire(); return func() {} }, false},
		{"lists without content", func() func() {
			resume := s.Way.Hollow()
			s.Way.Cut()
			return resume
		}, noticed},
	} {
		t.Run(f.name, func(t *testing.T) {
			end := f.begin()
			address := fmt.Sprintf("10.9.1.%d", 10+i)
			world.Edit(s, "c1", new(discoveryv1.EndpointSlice), "foo-abc", func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Addresses = []string{address} })
			if f.noticed {
				s.Until("noticed", func() error { return connected(s, "False", "") })
			}
			works(s, fmt.Sprintf("bar-%d", i))
			imp := s.MustImport("c2", "foo")
			if len(imp.Spec.IPs) == 0 || len(imp.Status.Clusters) != 1 {
				t.Errorf("the import is %+v", imp)
			}
			if now, err := s.Endpoints("c2", "foo", imp); err != nil || len(now) != 1 {
				t.Errorf("its endpoints are %v: %v", now, err)
			}
			end()
			s.Until("seen afterwards", func() error {
				return errors.Join(s.Imported("c2", "foo", []string{"c1"}, address), connected(s, "True", "Connected"))
			})
		})
	}
}

// Clocks of clusters that are a minute apart decide nothing but who is the oldest.
func TestClocksAMinuteApart(t *testing.T) {
	for _, shift := range []time.Duration{-time.Minute, time.Minute} {
		t.Run(shift.String(), func(t *testing.T) {
			s := reads(t, 4*time.Second, func(o *reconcile.Options) { o.Now = func() time.Time { return time.Now().Add(shift) } })
			s.Export("c1", world.Service("foo"), "10.9.1.1")
			s.Export("c2", world.Service("foo"), "10.9.2.1")
			s.Everywhere("foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.1")
			s.Until("well", func() error {
				return errors.Join(s.Healthy("c1", "foo"), s.Healthy("c2", "foo"), connected(s, "True", "Connected"))
			})
			before := heard(s)
			s.Until("renewed", func() error {
				if !heard(s).After(before) {
					return errors.New("not yet")
				}
				return nil
			})
			away(s)
			s.Until("gone in time", func() error { return s.Imported("c2", "foo", []string{"c1", "c2"}, "10.9.2.1") })
		})
	}
}

// Taking the controller away leaves everything serving (point 7 of the issue); what is deleted then takes its parts with it.
func TestWithoutTheController(t *testing.T) {
	s := reads(t, time.Second)
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Until("imported", func() error { return s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1") })
	s.End("c2")
	s.End("c1")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: world.SystemNamespace, Name: mcs.ControllerName}}
	s.Must(s.Admin("c2").Delete(t.Context(), account))
	t.Cleanup(func() {
		s.Check(s.Cluster("c2").Install(s.Late()))
	})
	s.Check(s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1"))
	s.Delete("c2", s.MustImport("c2", "foo"))
	s.Until("all of it", func() error { return s.Nothing("c2", "foo") })
}

func leaseOf(peer string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: world.SystemNamespace, Name: peer}}
}
