package rules

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/test/world"
)

// TestAssociatedForeignSlicesAreDeleted: a slice that a tenant associates with a derived Service is
// deleted, whatever its owner is, and also if the tenant deleted it first and blocks the deletion
// with a finalizer. Meanwhile, the content of the clusterset is written. A slice of a user's own
// Service stays.
func TestAssociatedForeignSlicesAreDeleted(t *testing.T) {
	t.Run("whatever owner they name", func(t *testing.T) { newTenants(t).owned() })
	t.Run("deleted and held first", func(t *testing.T) { newTenants(t).heldFirst() })
	t.Run("not those of a user's Service", func(t *testing.T) { newTenants(t).replaced() })
}

// imports has foo of c2, whose endpoint the derived Service leads to.
func (s *tenants) imports() {
	s.Helper()
	s.Export("c2", world.Service("foo"), "10.9.2.1")
	s.answersOfImport("foo")
	s.Until("foo leads to c2", s.leadsToC2)
}

func (s *tenants) leadsToC2() error { return s.leads("c1", labelLeadsTo, "derived-foo", "10.9.2.1") }

func (s *tenants) owned() {
	s.imports()
	tenant := s.tenant("c1", "edit", slicesToo, may("", "endpoints"))
	his, others := world.Service("his"), endpointsOf("other")
	s.CreateAs(tenant, his, others)
	derived := new(corev1.Service)
	if err := s.Admin("c1").Get(s.Context(), s.Key("derived-foo"), derived); err != nil {
		s.Fatal(err)
	}
	manages := map[string]string{"Endpoints": "endpointslicemirroring-controller.k8s.io", "Service": "endpointslice-controller.k8s.io"}
	for i, ref := range []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Service", Name: his.Name, UID: his.UID},
		{APIVersion: "v1", Kind: "Service", Name: derived.Name, UID: derived.UID},
		{APIVersion: "v1", Kind: "Service", Name: derived.Name, UID: "of-a-former-one"},
		{APIVersion: "serving.knative.dev/v1", Kind: "Service", Name: his.Name, UID: his.UID},
		{APIVersion: "v1", Kind: "Endpoints", Name: others.Name, UID: others.UID},
	} {
		for j, manager := range []string{"me", manages[ref.Kind]} {
			spy := world.Slice(fmt.Sprintf("spy-%d-%d", i, j), map[string]string{labelLeadsTo: "derived-foo", labelManager: manager}, "10.66.0.1")
			spy.OwnerReferences = []metav1.OwnerReference{ref}
			s.CreateAs(tenant, spy)
			s.Until(fmt.Sprintf("a slice of %s %s, managed by %s, is gone", ref.Kind, ref.Name, manager), func() error { return s.goneSlice(spy.Name, spy.UID) })
		}
	}
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Until("the import and the export report c1", func() error {
		imp, err := s.Import("c1", "foo")
		if err != nil {
			return err
		}
		export, err := s.exportNamed("foo", "c1")
		if err == nil && (len(imp.Status.Clusters) != 2 || len(export.Status.Conditions) != 3) {
			err = fmt.Errorf("clusters %v, conditions %v", imp.Status.Clusters, export.Status.Conditions)
		}
		return errors.Join(err, s.leads("c1", labelLeadsTo, "derived-foo", "10.9.1.1", "10.9.2.1"))
	})
	for _, stays := range []client.Object{his, others} {
		if err := s.Admin("c1").Get(s.Context(), client.ObjectKeyFromObject(stays), stays); err != nil || stays.GetDeletionTimestamp() != nil {
			s.Errorf("%s is being deleted: %v", stays.GetName(), err)
		}
	}
}

func (s *tenants) heldFirst() {
	s.imports()
	tenant := s.tenant("c1", "edit", slicesToo)
	for name, labels := range map[string]map[string]string{
		"of-the-name":    {labelService: "foo"},
		"of-no-name":     {labelService: "nobody"},
		"of-kubernetes":  {labelService: "foo", labelManager: "endpointslice-controller.k8s.io"},
		"marked":         {labelManager: controller},
		"marked-of-none": {labelManager: controller, labelService: "nobody"},
		"bare":           {},
	} {
		spy := world.Slice(name, labels, "10.66.0.1")
		spy.Finalizers = []string{held}
		s.CreateAs(tenant, spy)
		if err := tenant.Delete(s.Context(), spy); client.IgnoreNotFound(err) != nil { // One with the mark goes by itself.
			s.Fatal(err)
		}
		err := s.patch(tenant, spy, `{"metadata":{"labels":{"kubernetes.io/service-name":"derived-foo"}}}`)
		if client.IgnoreNotFound(err) != nil {
			s.Fatal(err)
		}
		s.Until(name+": foo leads to c2 only", s.leadsToC2)
	}
	s.settled()
	if err := s.leadsToC2(); err != nil {
		s.Error(err)
	}
}

func (s *tenants) replaced() {
	s.imports()
	s.Until("a user's Service instead of the derived one", func() error {
		derived := world.Service("derived-foo")
		derived.Namespace = s.Name
		if err := s.Admin("c1").Delete(s.Context(), derived); client.IgnoreNotFound(err) != nil {
			return err
		}
		return s.Try(s.Admin("c1"), world.Service("derived-foo"))
	})
	users := world.Slice("users", map[string]string{labelLeadsTo: "derived-foo"}, "10.7.0.1")
	s.Create("c1", users, endpointsOf("derived-foo"))
	s.says("c1", "foo", "ForeignService")
	s.settled()
	s.Until("the Service leads where the user says", func() error { return s.leads("c1", labelLeadsTo, "derived-foo", "10.66.0.1", "10.7.0.1") })
	live := new(discoveryv1.EndpointSlice)
	if err := s.Admin("c1").Get(s.Context(), s.Key("users"), live); err != nil || live.ResourceVersion != users.ResourceVersion {
		s.Errorf("the user's slice was written: %v", err)
	}
}
