package rules

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
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

func leaseOf(peer string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: world.SystemNamespace, Name: peer}}
}
