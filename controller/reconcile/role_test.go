package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// TestRoleHasNothingSpareAndNothingMissing lets a controller, with leader election, do each thing that it can do, and compares its
// requests with the roles that deploy/controller ships.
func TestRoleHasNothingSpareAndNothingMissing(t *testing.T) {
	cluster := shared.Cluster(t)
	wire := newWire()
	// An older API server: lists, then watches. A newer one streams lists through watches.
	wire.old = true
	p := newPlace(t, cluster)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "multicluster-system", Name: leaseName}}
	if err := p.Delete(p.ctx, lease); client.IgnoreNotFound(err) != nil { // Of an earlier run: a Lease is created once.
		t.Fatal(err)
	}
	stop := start(t, wire.config(account(t, cluster)), func(o *Options) {
		o.LeaderElect, o.Namespace = true, "multicluster-system"
	})
	if err := p.create(imported("foo", withIPs("1.2.3.4")), endpoints("foo-c2", "foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return errors.Join(p.servedOn("foo", "1.2.3.4"), p.label("foo-c2", "derived-foo")) })
	if err := p.edit("foo", withIPs()); err != nil { // The Service changes its type: a patch.
		t.Fatal(err)
	}
	until(t, "served", func() error { return p.served("foo") })
	if err := p.edit("foo", ofType(mcsv1beta1.Headless)); err != nil {
		t.Fatal(err)
	}
	until(t, "headless", func() error { return p.gone("foo") })

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
	if err := stop(); err != nil { // Releases the Lease, with a right that it has.
		t.Error(err)
	}
	if err := sameAccess(granted, wire); err != nil {
		t.Error(err)
	}
	if len(wire.forbidden) > 0 {
		t.Errorf("forbidden: %q", wire.forbidden)
	}
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
