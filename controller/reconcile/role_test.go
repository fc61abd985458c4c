package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

// TestRoleHasNothingSpareAndNothingMissing makes a controller with leader election use each of its
// functions. It compares the requests with the roles in deploy/controller.
func TestRoleHasNothingSpareAndNothingMissing(t *testing.T) {
	cluster := shared.Cluster(t)
	wire := newWire()
	// An older API server lists and then watches. A newer one streams lists through watches.
	wire.old = true
	p := newPlace(t, cluster)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "multicluster-system", Name: leaseName}}
	// The Lease is from an earlier run. A Lease is created only once.
	if err := p.Delete(p.ctx, lease); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	about := installAbout(t, cluster)
	if err := about.Create(p.ctx, clusterID("home")); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	identity, err := NewIdentity(wire.config(account(t, cluster)), "", "")
	if err != nil {
		t.Fatal(err)
	}
	stop := start(t, wire.config(account(t, cluster)), func(o *Options) {
		o.LeaderElect, o.Namespace, o.Identity = true, "multicluster-system", identity
		if o.ClusterID, err = identity.Wait(t.Context(), 20*time.Millisecond, logr.Discard()); err != nil || o.ClusterID != "home" {
			t.Errorf("the id is %q: %v", o.ClusterID, err)
		}
	})
	if err := p.create(imported("foo", withIPs("1.2.3.4")), endpoints("foo-c2", "foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return errors.Join(p.servedOn("foo", "1.2.3.4"), p.label("foo-c2", "derived-foo")) })
	// The Service changes its type with a patch.
	if err := p.edit("foo", withIPs()); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return p.served("foo") })
	if err := p.edit("foo", ofType(mcsv1beta1.Headless)); err != nil {
		t.Fatal(err)
	}
	until(t, "headless", func() error { return p.gone("foo") })

	asMember(t, p, cluster)

	granted := map[access]bool{}
	for _, name := range []string{"clusterrole.yaml", "role.yaml"} {
		objects, err := readObjects(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range objects {
			switch role := obj.(type) {
			case *rbacv1.ClusterRole:
				grant(granted, role.Rules)
			case *rbacv1.Role:
				grant(granted, role.Rules)
			}
		}
	}
	until(t, "every granted verb used", func() error {
		return sameAccess(granted, wire)
	})
	if err := stop(); err != nil { // needs the permission to release the Lease
		t.Error(err)
	}
	if err := sameAccess(granted, wire); err != nil {
		t.Error(err)
	}
	if len(wire.forbidden) > 0 {
		t.Errorf("forbidden: %q", wire.forbidden)
	}
}

// asMember exports a Service and withdraws it, has an invalid peer, and repairs edited objects.
func asMember(t *testing.T, p *place, cluster *kube.Cluster) {
	t.Helper()
	peer := meetPeer(t, p, cluster)
	if err := p.Delete(p.ctx, peer); err != nil {
		t.Fatal(err)
	}
	source := endpoints("db-x", "db")
	source.Labels = map[string]string{discoveryv1.LabelServiceName: "db"}
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
	if err := p.create(plainService("db"), source, export); err != nil {
		t.Fatal(err)
	}
	mirrored := func() (*discoveryv1.EndpointSlice, error) {
		var all discoveryv1.EndpointSliceList
		err := p.List(p.ctx, &all, client.InNamespace(p.namespace), client.MatchingLabels{mcsv1beta1.LabelSourceCluster: "home"})
		if err == nil && len(all.Items) != 1 {
			return nil, fmt.Errorf("%d slices of db", len(all.Items))
		}
		return &all.Items[0], err
	}
	var slice *discoveryv1.EndpointSlice
	until(t, "exported", func() (err error) {
		slice, err = mirrored()
		return errors.Join(err, p.served("db"))
	})
	slice.Labels = nil // get: the slice is no longer in the caches
	if err := p.Update(p.ctx, slice); err != nil {
		t.Fatal(err)
	}
	until(t, "repaired", func() error {
		_, err := mirrored()
		return err
	})
	endpointsTakenAway(t, p)
	if err := p.Delete(p.ctx, export); err != nil {
		t.Fatal(err)
	}
	until(t, "unexported", func() error {
		if _, err := p.imp("db"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	until(t, "the peer's Lease gone", func() error {
		if err := p.Get(p.ctx, client.ObjectKeyFromObject(peer), new(coordinationv1.Lease)); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// endpointsTakenAway creates Endpoints for the derived Service of db. The controller must delete
// them and the slice that Kubernetes creates from them.
func endpointsTakenAway(t *testing.T, p *place) {
	t.Helper()
	source := new(metav1.PartialObjectMetadata)
	source.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Endpoints"))
	made := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "derived-db"}} //nolint:staticcheck // what this is about
	if err := p.create(made); err != nil {
		t.Fatal(err)
	}
	slice := endpoints("derived-db-x", "")
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "derived-db", discoveryv1.LabelManagedBy: desired.SliceMirroring}
	slice.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Endpoints", Name: made.Name, UID: made.UID}}
	// Needs patch: the slice must be deleted although it has a finalizer.
	slice.Finalizers = []string{"example.org/held"}
	if err := p.create(slice); err != nil {
		t.Fatal(err)
	}
	until(t, "Endpoints and their slice gone", func() error {
		for _, object := range []client.Object{source, slice} {
			key := client.ObjectKey{Namespace: p.namespace, Name: cmp.Or(object.GetName(), made.Name)}
			if err := p.Get(p.ctx, key, object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is there: %w", key.Name, err)
			}
		}
		return nil
	})
}

// meetPeer adds a peer that is this cluster itself, and interrupts its connection for a while. The
// same condition twice is one event, which is patched.
func meetPeer(t *testing.T, p *place, cluster *kube.Cluster) *corev1.Secret {
	t.Helper()
	way, err := faultproxy.Listen(strings.TrimPrefix(cluster.Config.Host, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = way.Close() })
	kubeconfig, err := way.Kubeconfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	peer := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "multicluster-system", Name: "mirror", Labels: map[string]string{mcs.LabelPeer: ""}},
		Data:       map[string][]byte{"kubeconfig": kubeconfig},
	}
	if err := p.Create(p.ctx, peer); err != nil {
		t.Fatal(err)
	}
	is := func(reason string) func() error {
		return func() error {
			lease := new(coordinationv1.Lease)
			err := p.Get(p.ctx, client.ObjectKeyFromObject(peer), lease)
			if got := lease.Labels["clusterset-dns.io/reason"]; err == nil && got != reason {
				err = fmt.Errorf("it is %s", got)
			}
			return err
		}
	}
	until(t, "this cluster itself", is("DuplicateCluster"))
	resume, err := way.Refuse()
	if err != nil {
		t.Fatal(err)
	}
	until(t, "away", is("Unreachable"))
	if err := resume(); err != nil {
		t.Fatal(err)
	}
	until(t, "the same again", is("DuplicateCluster"))
	return peer
}

func grant(granted map[access]bool, rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted[access{group, resource, verb}] = true
				}
			}
		}
	}
}

func sameAccess(granted map[access]bool, wire *wire) error {
	wire.mu.Lock()
	defer wire.mu.Unlock()
	var differences []error
	for _, a := range slices.SortedFunc(maps.Keys(granted), byText) {
		if wire.requests[a] == 0 {
			differences = append(differences, fmt.Errorf("granted and not used: %+v", a))
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(wire.requests), byText) {
		if !granted[a] {
			differences = append(differences, fmt.Errorf("used and not granted: %+v", a))
		}
	}
	return errors.Join(differences...)
}

func byText(a, b access) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
