package rbac

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAssociatedForeignSlicesAreDeleted: a slice that a tenant associates with a derived Service is
// deleted, whatever its owner is, and also if the tenant deleted it first and blocks the deletion
// with a finalizer. Meanwhile, the content of the clusterset is written. A slice of a user's own
// Service stays.
func TestAssociatedForeignSlicesAreDeleted(t *testing.T) {
	t.Run("whatever owner they name", func(t *testing.T) { newStage(t).owned() })
	t.Run("deleted and held first", func(t *testing.T) { newStage(t).heldFirst() })
	t.Run("not those of a user's Service", func(t *testing.T) { newStage(t).replaced() })
}

// imports has foo of c2, whose endpoint the derived Service leads to.
func (s *stage) imports() {
	s.Helper()
	s.export(s.c2, service("foo"), "10.9.2.1")
	s.answersOfImport("foo")
	s.until("foo leads to c2", s.leadsToC2)
}

func (s *stage) leadsToC2() error { return s.leads(s.c1, labelLeadsTo, "derived-foo", "10.9.2.1") }

func (s *stage) owned() {
	s.imports()
	tenant := s.tenant(s.c1, "edit", slicesToo, may("", "endpoints"))
	his, others := service("his"), endpointsOf("other")
	s.create(tenant, his, others)
	derived := new(corev1.Service)
	if err := s.c1.Admin.Get(s.Context(), s.key("derived-foo"), derived); err != nil {
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
			spy := slice(fmt.Sprintf("spy-%d-%d", i, j), map[string]string{labelLeadsTo: "derived-foo", labelManager: manager}, "10.66.0.1")
			spy.OwnerReferences = []metav1.OwnerReference{ref}
			s.create(tenant, spy)
			s.until(fmt.Sprintf("a slice of %s %s, managed by %s, is gone", ref.Kind, ref.Name, manager), func() error { return s.goneSlice(spy.Name, spy.UID) })
		}
	}
	s.export(s.c1, service("foo"), "10.9.1.1")
	s.until("the import and the export report c1", func() error {
		imp, err := s.imp(s.c1, "foo")
		if err != nil {
			return err
		}
		export, err := s.exportNamed("foo", s.c1)
		if err == nil && (len(imp.Status.Clusters) != 2 || len(export.Status.Conditions) != 3) {
			err = fmt.Errorf("clusters %v, conditions %v", imp.Status.Clusters, export.Status.Conditions)
		}
		return errors.Join(err, s.leads(s.c1, labelLeadsTo, "derived-foo", "10.9.1.1", "10.9.2.1"))
	})
	for _, stays := range []client.Object{his, others} {
		if err := s.c1.Admin.Get(s.Context(), client.ObjectKeyFromObject(stays), stays); err != nil || stays.GetDeletionTimestamp() != nil {
			s.Errorf("%s is being deleted: %v", stays.GetName(), err)
		}
	}
}

func (s *stage) heldFirst() {
	s.imports()
	tenant := s.tenant(s.c1, "edit", slicesToo)
	for name, labels := range map[string]map[string]string{
		"of-the-name":    {labelService: "foo"},
		"of-no-name":     {labelService: "nobody"},
		"of-kubernetes":  {labelService: "foo", labelManager: "endpointslice-controller.k8s.io"},
		"marked":         {labelManager: controller},
		"marked-of-none": {labelManager: controller, labelService: "nobody"},
		"bare":           {},
	} {
		spy := slice(name, labels, "10.66.0.1")
		spy.Finalizers = []string{held}
		s.create(tenant, spy)
		if err := tenant.Delete(s.Context(), spy); client.IgnoreNotFound(err) != nil { // One with the mark goes by itself.
			s.Fatal(err)
		}
		err := s.patch(tenant, spy, `{"metadata":{"labels":{"kubernetes.io/service-name":"derived-foo"}}}`)
		if client.IgnoreNotFound(err) != nil {
			s.Fatal(err)
		}
		s.until(name+": foo leads to c2 only", s.leadsToC2)
	}
	s.settled()
	if err := s.leadsToC2(); err != nil {
		s.Error(err)
	}
}

func (s *stage) replaced() {
	s.imports()
	s.until("a user's Service instead of the derived one", func() error {
		derived := service("derived-foo")
		derived.Namespace = s.namespace
		if err := s.c1.Admin.Delete(s.Context(), derived); client.IgnoreNotFound(err) != nil {
			return err
		}
		return s.try(s.c1.Admin, service("derived-foo"))
	})
	users := slice("users", map[string]string{labelLeadsTo: "derived-foo"}, "10.7.0.1")
	s.create(s.c1.Admin, users, endpointsOf("derived-foo"))
	s.says(s.c1, "foo", "ForeignService")
	s.settled()
	s.until("the Service leads where the user says", func() error { return s.leads(s.c1, labelLeadsTo, "derived-foo", "10.66.0.1", "10.7.0.1") })
	live := new(discoveryv1.EndpointSlice)
	if err := s.c1.Admin.Get(s.Context(), s.key("users"), live); err != nil || live.ResourceVersion != users.ResourceVersion {
		s.Errorf("the user's slice was written: %v", err)
	}
}
