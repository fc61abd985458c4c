package rules

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/world"
)

// TestFreedAddressesAreNotAnswered (C24): with `edit` a tenant frees the address of a derived
// Service, by deleting or editing it, and gives it to a Service of their own. As soon as the
// controller has seen that, the import has no address, and then another one.
func TestFreedAddressesAreNotAnswered(t *testing.T) {
	for what, frees := range map[string]func(tenant client.Client, derived *corev1.Service) error{
		"deleted": func(client.Client, *corev1.Service) error { return nil },
		"made anew as a headless one, with the controller's marks": func(tenant client.Client, derived *corev1.Service) error {
			forged := world.Service(derived.Name, world.Headless)
			forged.Namespace, forged.Labels, forged.OwnerReferences = derived.Namespace, derived.Labels, derived.OwnerReferences
			return tenant.Create(t.Context(), forged)
		},
		"made anew as an ExternalName, with the controller's marks": func(tenant client.Client, derived *corev1.Service) error {
			forged := world.Service(derived.Name)
			forged.Namespace, forged.Labels, forged.OwnerReferences = derived.Namespace, derived.Labels, derived.OwnerReferences
			forged.Spec.Type, forged.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.org"
			return tenant.Create(t.Context(), forged)
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newTenants(t)
			vip := s.importedFromC2()
			imports := s.watchImports()
			tenant := s.tenant("c1", "edit")
			s.takesFreed(tenant, vip, frees, func(*corev1.Service) {})
			s.Until("the import has no address", s.seesNoIPs(imports))
			becomes(s.Namespace, "c1", "derived-foo", "it has another one", func(svc *corev1.Service) bool {
				ip := svc.Spec.ClusterIP
				return ip != vip && ip != corev1.ClusterIPNone && errors.Join(s.answered("foo", "NOERROR "+ip), s.leadsToC2()) == nil
			})
		})
	}
}

// TestForgedMarksGiveNoAddress: the address is not answered either if the tenant's Service has the
// controller's marks and cannot be deleted.
func TestForgedMarksGiveNoAddress(t *testing.T) {
	s := newTenants(t)
	vip := s.importedFromC2()
	tenant := s.tenant("c1", "edit")
	derived := world.Live(s.Namespace, "c1", new(corev1.Service), "derived-foo")
	forge := func(his *corev1.Service) {
		his.Labels, his.OwnerReferences, his.Finalizers = derived.Labels, derived.OwnerReferences, []string{held}
	}
	s.takesFreed(tenant, vip, func(client.Client, *corev1.Service) error { return nil }, forge)
	s.answers("foo", "NOERROR")
	world.EditAs(s.Namespace, tenant, new(corev1.Service), "his", func(svc *corev1.Service) { svc.Finalizers = nil })
	s.Says("c1", "foo", "Ready", "Ready", "served by Service derived-foo")
}

// takesFreed lets a tenant delete derived-foo, create another Service, and take the address,
// repeatedly until the tenant was faster than the controller.
func (s *tenants) takesFreed(tenant client.Client, address string, frees func(client.Client, *corev1.Service) error, forge func(*corev1.Service)) {
	s.Helper()
	s.Until("the tenant's Service has the address", func() error {
		his := world.Service("his")
		his.Spec.ClusterIP, his.Spec.Selector = address, map[string]string{"app": "his"}
		forge(his)
		derived := new(corev1.Service)
		if err := tenant.Get(s.Context(), s.Key("derived-foo"), derived); client.IgnoreNotFound(err) != nil {
			return err
		}
		if derived.Name != "" {
			if err := client.IgnoreNotFound(tenant.Delete(s.Context(), derived)); err != nil {
				return err
			}
			if err := frees(tenant, derived); err != nil {
				return err
			}
		}
		var err error
		for range 20 { // The API server releases the address a moment later.
			if err = s.Try(tenant, his.DeepCopy()); err == nil {
				return nil
			}
		}
		return err
	})
}

// watchImports yields each change of the import foo in c1.
func (s *tenants) watchImports() watch.Interface {
	s.Helper()
	watching := s.As(s.Cluster("c1").Config)
	changes, err := watching.Watch(s.Context(), &mcsv1beta1.ServiceImportList{}, client.InNamespace(s.Name))
	s.Must(err)
	s.Cleanup(changes.Stop)
	return changes
}

// seesNoIPs wants foo to have had no address, from the first change on that takes the one away which it had.
func (s *tenants) seesNoIPs(changes watch.Interface) func() error {
	var had []string
	return func() error {
		for {
			select {
			case event, ok := <-changes.ResultChan():
				imp, is := event.Object.(*mcsv1beta1.ServiceImport)
				switch {
				case !ok:
					return errors.New("the watch has ended")
				case !is || imp.Name != "foo":
				case len(imp.Spec.IPs) == 0:
					return nil
				case had != nil && !slices.Equal(had, imp.Spec.IPs):
					s.Errorf("ips were %v and became %v: until then, %[1]v was answered", had, imp.Spec.IPs)
					return nil
				default:
					had = imp.Spec.IPs
				}
			default:
				return fmt.Errorf("ips are %v", had)
			}
		}
	}
}
