package rules

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/world"
)

// TestDefaultRolesReachNothing (C6, C23): neither `edit` nor `admin` of a namespace may write what names are answered from.
func TestDefaultRolesReachNothing(t *testing.T) {
	for _, role := range []string{"edit", "admin"} {
		t.Run(role, func(t *testing.T) {
			s := newTenants(t)
			s.Export("c1", world.Service("foo"), "10.9.1.1")
			s.answersOfImport("foo")
			tenant := s.tenant("c1", role)
			s.CreateAs(tenant, world.Service("mine")) // the account works

			at := func(namespace, name string) metav1.ObjectMeta {
				return metav1.ObjectMeta{Namespace: namespace, Name: name}
			}
			system := world.SystemNamespace
			for what, err := range map[string]error{
				"make an EndpointSlice":                   s.Try(tenant, world.Slice("x", map[string]string{labelService: "foo"}, "10.9.1.2")),
				"make Endpoints":                          s.Try(tenant, &corev1.Endpoints{ObjectMeta: at("", "x")}), //nolint:staticcheck // the older form, which is copied to slices
				"make a ServiceImport":                    s.Try(tenant, world.Import("x", mcsv1beta1.ClusterSetIP, "10.9.1.2")),
				"make a ServiceExport":                    s.Try(tenant, world.Export("mine")),
				"delete a ServiceImport":                  tenant.Delete(t.Context(), &mcsv1beta1.ServiceImport{ObjectMeta: at(s.Name, "foo")}),
				"list the EndpointSlices of all":          tenant.List(t.Context(), &discoveryv1.EndpointSliceList{}),
				"make a Service in another namespace":     s.Try(tenant, &corev1.Service{ObjectMeta: at("default", "x"), Spec: world.Service("x").Spec}),
				"read the peers' Secrets":                 tenant.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "c2"}, new(corev1.Secret)),
				"list them":                               tenant.List(t.Context(), new(corev1.SecretList), client.InNamespace(system)),
				"make a Secret of a peer":                 s.Try(tenant, &corev1.Secret{ObjectMeta: at(system, "c9")}),
				"read what is known of peers":             tenant.List(t.Context(), new(corev1.EventList), client.InNamespace(system)),
				"give itself more rights than it has":     s.Try(tenant, &rbacv1.Role{ObjectMeta: at("", "more"), Rules: []rbacv1.PolicyRule{slicesToo}}),
				"announce another id for the own cluster": tenant.Patch(t.Context(), namespaceOf(system), announcing("c9")),
			} {
				if !apierrors.IsForbidden(err) {
					t.Errorf("%s: %v; want forbidden", what, err)
				}
			}
		})
	}
}

// announcing is the patch of a namespace by which a controller announces its cluster's ID.
func announcing(id string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"clusterset-dns.io/cluster-id":"`+id+`"}}}`))
}

// answersOfImport waits until a name has the address of its import.
func (s *tenants) answersOfImport(name string) (address string) {
	s.Helper()
	s.Until("import "+name, func() error {
		imp, err := s.Import("c1", name)
		if err != nil || len(imp.Spec.IPs) == 0 {
			return orElse(err, "it has no ips")
		}
		address = imp.Spec.IPs[0]
		return s.answered(name, typeA, "NOERROR "+address)
	})
	return address
}
