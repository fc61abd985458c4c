package rules

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/world"
)

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
		if err := admin.Get(ctx, key, role); err != nil {
			s.Fatal(err)
		}
		role.Rules = change(role.Rules)
		if err := admin.Update(ctx, role); err != nil {
			s.Fatal(err)
		}
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
		set(context.WithoutCancel(s.Context()), func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return before })
	})
}
