package tenants

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestEditorsOfServices (C24): with `edit` a tenant stands in the way of an import of his own namespace, and is told; what he does to a
// derived Service is put right, with the address that it had.
func TestEditorsOfServices(t *testing.T) {
	s := newStage(t)
	tenant := s.tenant(s.c1, "edit")
	his := service("derived-foo")
	his.Spec.Selector = map[string]string{"app": "his"}
	s.create(tenant, his)
	s.export(s.c2, service("foo"), "10.9.2.1")
	s.export(s.c2, service("bar"), "10.9.2.2")
	s.says(s.c1, "foo", "ForeignService: Service derived-foo exists")
	vip := s.answersOfImport("bar")

	is := func(what string, want func(*corev1.Service) bool) {
		t.Helper()
		s.until(what, func() error {
			svc := new(corev1.Service)
			err := s.c1.Admin.Get(t.Context(), s.key("derived-bar"), svc)
			if err == nil && (!want(svc) || svc.Spec.ClusterIP != vip) {
				err = fmt.Errorf("the Service is %+v", svc.Spec)
			}
			return err
		})
	}
	edit(s, tenant, "derived-bar", new(corev1.Service), func(svc *corev1.Service) {
		svc.Labels, svc.Spec.Selector, svc.Spec.Ports[0].Port = nil, map[string]string{"app": "his"}, 6666
	})
	// Without its label it is not the controller's: it is left alone, and the name has no address of his.
	s.says(s.c1, "bar", "ForeignService")
	s.answers("bar", "NOERROR")
	edit(s, tenant, "derived-bar", new(corev1.Service), func(svc *corev1.Service) { svc.Labels = map[string]string{labelKeeper: controller} })
	is("the Service is put right", func(svc *corev1.Service) bool { return svc.Spec.Selector == nil && svc.Spec.Ports[0].Port == 80 })
	s.answers("bar", "NOERROR "+vip)
	edit(s, tenant, "derived-bar", new(corev1.Service), func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"app": "his"} })
	is("its selector goes", func(svc *corev1.Service) bool { return svc.Spec.Selector == nil })
	old := new(corev1.Service)
	if err := s.c1.Admin.Get(t.Context(), s.key("derived-bar"), old); err != nil {
		t.Fatal(err)
	}
	if err := tenant.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	is("it comes back", func(svc *corev1.Service) bool { return svc.UID != old.UID })
	s.until("with its endpoints", func() error { return s.leads(s.c1, labelLeadsTo, "derived-bar", "10.9.2.2") })
	if err := s.leads(s.c1, labelLeadsTo, "derived-foo"); err != nil {
		t.Errorf("his Service has got imported endpoints: %v", err)
	}
	live := new(corev1.Service)
	if err := s.c1.Admin.Get(t.Context(), s.key(his.Name), live); err != nil || live.ResourceVersion != his.ResourceVersion {
		t.Errorf("his Service was changed: %v %v", live, err)
	}
}
