package rules

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/test/world"
)

const held = "example.org/held"

// TestFinalizersDoNotKeepForgedSlices: RBAC cannot keep the controller's mark from users with permission to write slices. A forged slice is
// deleted at once, and disappears from all names, also in the other cluster. A finalizer keeps neither a slice with the mark nor one that is
// associated with a derived Service.
func TestFinalizersDoNotKeepForgedSlices(t *testing.T) {
	s := newTenants(t)
	s.exportsDBAndFoo()
	tenant := s.tenant("c1", "edit", slicesToo)
	for name, labels := range map[string]map[string]string{
		"marked":      {labelService: "db", labelCluster: "c1", labelManager: controller},
		"of-c2":       {labelService: "db", labelCluster: "c2", labelManager: controller},
		"of-c9":       {labelService: "db", labelCluster: "c9", labelManager: controller},
		"marked-foo":  {labelService: "foo", labelCluster: "c1", labelManager: controller, labelLeadsTo: "derived-foo"},
		"led":         {labelLeadsTo: "derived-foo"},
		"led-of-none": {labelLeadsTo: "derived-foo", labelService: "nobody", labelManager: controller},
	} {
		forged := world.Slice(name, labels, "10.66.0.1")
		forged.Finalizers = []string{held}
		s.CreateAs(tenant, forged)
		s.Until(name+" is gone", func() error { return s.goneSlice(name, forged.UID) })
		s.answers("db", "NOERROR 10.9.1.1")
	}
	s.settled()
	s.Check(errors.Join(s.answered("db", "NOERROR 10.9.1.1"), s.answered("pod-0.c1.db", "NOERROR 10.9.1.1"),
		s.leads("c1", labelLeadsTo, "derived-foo", "10.9.1.1"), s.hasEndpoints("c2", "db", "10.9.1.1"), s.hasEndpoints("c2", "foo", "10.9.1.1")))
}

// goneSlice wants no slice of a name in c1, or another than that.
func (s *tenants) goneSlice(name string, uid types.UID) error {
	live := new(discoveryv1.EndpointSlice)
	err := s.Gone("c1", live, name)
	if live.UID != "" && live.UID != uid {
		return nil
	}
	return err
}

// TestFinalizersDoNotKeepOwnSlices: a slice of the controller that a tenant deletes, blocks with a
// finalizer and edits is deleted and created again. The finalizer can be the tenant's or the
// garbage collector's.
func TestFinalizersDoNotKeepOwnSlices(t *testing.T) {
	s := newTenants(t)
	s.Export("c2", world.Service("db", world.Headless), "10.9.2.1")
	s.answers("db", "NOERROR 10.9.2.1")
	tenant := s.tenant("c1", "edit", slicesToo)
	name := s.SliceOf("c1", "db", "c2").Name
	for how, hold := range map[string]func(*discoveryv1.EndpointSlice) []client.DeleteOption{
		"by a finalizer": func(*discoveryv1.EndpointSlice) []client.DeleteOption { return nil },
		"by an object that depends on it": func(slice *discoveryv1.EndpointSlice) []client.DeleteOption {
			dependent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "dependent", Finalizers: []string{held}, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice", Name: slice.Name, UID: slice.UID, BlockOwnerDeletion: new(true),
			}}}}
			s.CreateAs(tenant, dependent)
			t.Cleanup(func() { // or the namespace would stay
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
				s.Check(client.IgnoreNotFound(s.Admin("c1").Patch(s.Late(), dependent, patch)))
			})
			return []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationForeground)}
		},
	} {
		slice := new(discoveryv1.EndpointSlice)
		world.EditAs(s.Namespace, tenant, slice, name, func(slice *discoveryv1.EndpointSlice) { slice.Finalizers = []string{held} })
		s.Must(tenant.Delete(t.Context(), slice, hold(slice)...))
		// With what is there by now: perhaps the slice made anew, which is put right.
		world.EditAs(s.Namespace, tenant, new(discoveryv1.EndpointSlice), name, func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Addresses = []string{"10.66.0.1"} })
		s.Until("held "+how+": it is made anew", func() error {
			return errors.Join(s.goneSlice(name, slice.UID), s.leads("c1", labelService, "db", "10.9.2.1"))
		})
		s.settled()
		s.Check(s.answered("db", "NOERROR 10.9.2.1"))
	}
}

// TestOwnSlicesStayWithKubeProxy: labels by which kube-proxy leaves a slice to others do not stay on one of the controller's; others do.
func TestOwnSlicesStayWithKubeProxy(t *testing.T) {
	s := newTenants(t)
	s.importedFromC2()
	tenant := s.tenant("c1", "edit", slicesToo)
	name := s.SliceOf("c1", "foo", "c2").Name
	world.EditAs(s.Namespace, tenant, new(discoveryv1.EndpointSlice), name, func(slice *discoveryv1.EndpointSlice) {
		slice.Labels[labelProxy], slice.Labels[corev1.IsHeadlessService], slice.Labels["theirs"] = "his", "", "too"
	})
	world.Becomes(s.Namespace, "c1", new(discoveryv1.EndpointSlice), name, "it is kube-proxy's again", func(live *discoveryv1.EndpointSlice) bool {
		_, proxied := live.Labels[labelProxy]
		_, headless := live.Labels[corev1.IsHeadlessService]
		return !proxied && !headless && live.Labels["theirs"] == "too"
	})
}

// TestDerivedServicesWithFinalizersContinueToServe: a derived Service that is deleted and held by a finalizer keeps its address and its endpoints, and is
// put right as long as it is there; then it is made anew.
func TestDerivedServicesWithFinalizersContinueToServe(t *testing.T) {
	s := newTenants(t)
	vip := s.importedFromC2()
	tenant := s.tenant("c1", "edit")
	svc := new(corev1.Service)
	world.EditAs(s.Namespace, tenant, svc, "derived-foo", func(svc *corev1.Service) { svc.Finalizers = []string{held} })
	s.Must(tenant.Delete(t.Context(), svc))
	s.Says("c1", "foo", "Ready", "Pending", "Service derived-foo is being deleted")
	world.EditAs(s.Namespace, tenant, new(corev1.Service), "derived-foo", func(svc *corev1.Service) {
		svc.Spec.Selector, svc.Spec.Ports[0].Port = map[string]string{"app": "his"}, 6666
	})
	well := func() error { return errors.Join(s.leadsToC2(), s.answered("foo", "NOERROR "+vip)) }
	becomes(s.Namespace, "c1", "derived-foo", "put right", func(live *corev1.Service) bool {
		return live.Spec.Selector == nil && live.Spec.Ports[0].Port == 80 && live.UID == svc.UID && well() == nil
	})
	world.EditAs(s.Namespace, tenant, new(corev1.Service), "derived-foo", func(svc *corev1.Service) { svc.Finalizers = nil })
	s.Says("c1", "foo", "Ready", "Ready", "served by Service derived-foo")
	s.Check(well())
}
