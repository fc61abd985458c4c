package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world"
)

// K10, A5: a cluster with the CRD that Karmada ships (v1alpha1 only, one IP, and neither families
// nor policies nor conditions in a ServiceImport) is a full member, as importer and as peer. The
// controller does not write forever what its CRD cannot store.
func TestOldCRDs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	old, err := world.StartWith(ctx, "c2", kube.Options{ServiceCIDRs: "10.2.0.0/16,fd00:2::/112"}, kube.OldKarmada, "v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := old.Stop(); err != nil {
			t.Error("stop the cluster with old CRDs:", err)
		}
	})
	w := world.Of(t, world.Two(t).Cluster("c1"), old)
	for i, c := range w.Clusters {
		peer := w.Clusters[1-i]
		w.Must(errors.Join(c.Join(ctx, peer.ID, peer.ReaderKubeconfig), c.Run(context.WithoutCancel(t.Context()))))
	}
	s := w.Namespace()
	s.Export("c1", world.Service("foo", world.DualStack, func(spec *corev1.ServiceSpec) {
		spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameZone)
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
	}), "10.9.1.1")
	s.Export("c2", world.Service("bar"), "10.9.2.1")
	s.Until("imported by the newer one", func() error { return s.Imported("c1", "bar", []string{"c2"}, "10.9.2.1") })
	s.Until("said in the older one", func() error { return s.Healthy("c2", "bar") })
	s.Until("imported by the older one", func() error { return onOldCRD(s, "foo", "10.9.1.1") })

	versions := func() string {
		imp, err := s.Import("c2", "foo")
		svc := new(corev1.Service)
		s.Must(errors.Join(err, s.Admin("c2").Get(t.Context(), client.ObjectKey{Namespace: s.Name, Name: ownership.DerivedName(imp)}, svc)))
		return imp.ResourceVersion + " " + svc.ResourceVersion
	}
	before := versions()
	s.Export("c1", world.Service("another"), "10.9.1.2")
	s.Until("others go on", func() error { return onOldCRD(s, "another", "10.9.1.2") })
	if after := versions(); after != before {
		t.Errorf("they are still written: %s, then %s", before, after)
	}
}

// onOldCRD wants an import in the cluster with the old CRD, which has no condition to look at.
func onOldCRD(s *world.Namespace, name string, addresses ...string) error {
	imp, err := s.Import("c2", name)
	if err != nil {
		return err
	}
	if len(imp.Spec.IPs) != 1 || len(imp.Status.Clusters) != 1 || len(imp.Status.Conditions) > 0 {
		return fmt.Errorf("import %s is %+v %+v", name, imp.Spec, imp.Status)
	}
	got, err := s.Endpoints("c2", name, imp)
	if err == nil && !slices.Equal(got, addresses) {
		err = fmt.Errorf("import %s has endpoints %v", name, got)
	}
	return err
}

// A cluster whose slices describe its exported Services needs to give its peers no right to read Services.
func TestPeersNeedNotReadServices(t *testing.T) {
	s := world.Three(t).Namespace()
	s.Until("announced", func() error {
		namespace := new(corev1.Namespace)
		if err := s.Admin("c1").Get(t.Context(), client.ObjectKey{Name: world.SystemNamespace}, namespace); err != nil {
			return err
		}
		if got := namespace.Annotations[mcs.AnnotationTerms]; got != "v1" {
			return fmt.Errorf("%s is %q", mcs.AnnotationTerms, got)
		}
		return nil
	})
	s.Export("c1", world.Service("old"), "10.9.1.1")
	s.Until("imported", func() error { return s.Imported("c2", "old", []string{"c1"}, "10.9.1.1") })
	rights(s, "c1", func(rule rbacv1.PolicyRule) bool { return rule.Resources[0] == "services" })
	s.Restart("c2")
	s.Export("c1", world.Service("foo"), "10.9.1.2")
	s.Create("c1", world.Service("empty"), world.Export("empty"))
	s.Until("imported without the right", func() error {
		return errors.Join(s.Imported("c2", "old", []string{"c1"}, "10.9.1.1"), s.Imported("c2", "foo", []string{"c1"}, "10.9.1.2"), s.Imported("c2", "empty", []string{"c1"}))
	})
	world.Edit(s, "c1", new(corev1.Service), "foo", func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 8443 })
	s.Until("another port", func() error {
		imp, err := s.Import("c2", "foo")
		if err == nil && imp.Spec.Ports[0].Port != 8443 {
			err = fmt.Errorf("ports %v", imp.Spec.Ports)
		}
		return err
	})
}

// rights removes rules from the role for peers in a cluster, until the end of the test.
func rights(s *world.Namespace, id string, without func(rbacv1.PolicyRule) bool) {
	s.Helper()
	admin, key := s.Admin(id), client.ObjectKey{Name: "multicluster-peer"}
	set := func(ctx context.Context, change func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) {
		role := new(rbacv1.ClusterRole)
		s.Must(admin.Get(ctx, key, role))
		role.Rules = change(role.Rules)
		s.Must(admin.Update(ctx, role))
	}
	var before []rbacv1.PolicyRule
	set(s.Context(), func(rules []rbacv1.PolicyRule) (rest []rbacv1.PolicyRule) {
		before = rules
		for _, rule := range rules {
			if !without(rule) {
				rest = append(rest, rule)
			}
		}
		return rest
	})
	s.Cleanup(func() {
		set(s.Late(), func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return before })
	})
}
