package rules

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/world"
)

// TestEditorsOfServices (C24): with `edit` a tenant can block an import of their own namespace, and
// its status reports it. Changes of a derived Service are repaired, and its address stays.
func TestEditorsOfServices(t *testing.T) {
	s := newTenants(t)
	tenant := s.tenant("c1", "edit")
	his := world.Service("derived-foo")
	his.Spec.Selector = map[string]string{"app": "his"}
	s.CreateAs(tenant, his)
	s.Export("c2", world.Service("foo"), "10.9.2.1")
	s.Export("c2", world.Service("bar"), "10.9.2.2")
	s.Says("c1", "foo", "Ready", "ForeignService", "Service derived-foo exists")
	vip := s.answersOfImport("bar")

	is := func(what string, want func(*corev1.Service) bool) {
		t.Helper()
		becomes(s.Namespace, "c1", "derived-bar", what, func(svc *corev1.Service) bool { return want(svc) && svc.Spec.ClusterIP == vip })
	}
	takes := func(svc *corev1.Service) {
		svc.Labels, svc.Spec.Selector, svc.Spec.Ports[0].Port = nil, map[string]string{"app": "his"}, 6666
	}
	putRight := func(svc *corev1.Service) bool {
		return svc.Labels[labelKeeper] == controller && svc.Spec.Selector == nil && svc.Spec.Ports[0].Port == 80
	}
	world.EditAs(s.Namespace, tenant, new(corev1.Service), "derived-bar", takes)
	is("the Service is put right, as the import owns it", putRight)
	var owners []metav1.OwnerReference
	world.EditAs(s.Namespace, tenant, new(corev1.Service), "derived-bar", func(svc *corev1.Service) {
		takes(svc)
		owners, svc.OwnerReferences = svc.OwnerReferences, nil
	})
	// Without its label and its owner, the Service does not belong to the controller: it stays unchanged, and the
	// name does not have its address.
	s.Says("c1", "bar", "Ready", "ForeignService", "")
	s.answers("bar", "NOERROR")
	world.EditAs(s.Namespace, tenant, new(corev1.Service), "derived-bar", func(svc *corev1.Service) {
		svc.Labels, svc.OwnerReferences = map[string]string{labelKeeper: controller}, owners
	})
	is("the Service is put right", putRight)
	s.answers("bar", "NOERROR "+vip)
	world.EditAs(s.Namespace, tenant, new(corev1.Service), "derived-bar", func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"app": "his"} })
	is("its selector goes", func(svc *corev1.Service) bool { return svc.Spec.Selector == nil })
	world.EditAs(s.Namespace, tenant, new(corev1.Service), "derived-bar", func(svc *corev1.Service) {
		svc.Labels[labelProxy], svc.Labels[corev1.IsHeadlessService], svc.Labels["theirs"] = "his", "", "too"
		svc.Spec.ExternalIPs = []string{"10.66.0.1"}
	})
	is("kube-proxy serves it, and no address of the tenant", func(svc *corev1.Service) bool {
		_, headless := svc.Labels[corev1.IsHeadlessService]
		return svc.Spec.ExternalIPs == nil && svc.Labels[labelProxy] == "" && !headless && svc.Labels["theirs"] == "too"
	})
	old := world.Live(s.Namespace, "c1", new(corev1.Service), "derived-bar")
	s.Must(tenant.Delete(t.Context(), old))
	is("it comes back", func(svc *corev1.Service) bool { return svc.UID != old.UID })
	s.Until("with its endpoints", func() error { return s.leads("c1", labelLeadsTo, "derived-bar", "10.9.2.2") })
	if err := s.leads("c1", labelLeadsTo, "derived-foo"); err != nil {
		t.Errorf("the tenant's Service has imported endpoints: %v", err)
	}
	if live := world.Live(s.Namespace, "c1", new(corev1.Service), his.Name); live.ResourceVersion != his.ResourceVersion {
		t.Errorf("the tenant's Service was changed: %v", live)
	}
}

// TestEditorsOfVIPs: nor does a tenant keep clients from the addresses that somebody gave an import.
func TestEditorsOfVIPs(t *testing.T) {
	s := newTenants(t)
	tenant := s.tenant("c1", "edit")
	s.Create("c1", world.Import("vip", mcsv1beta1.ClusterSetIP, "192.0.2.7"))
	isRight := func(svc *corev1.Service) bool {
		ingress := svc.Status.LoadBalancer.Ingress
		return len(ingress) == 1 && ingress[0].IP == "192.0.2.7" && len(svc.Spec.LoadBalancerSourceRanges) == 0 &&
			svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyCluster
	}
	becomes(s.Namespace, "c1", "derived-vip", "the Service has the address", isRight)
	world.EditAs(s.Namespace, tenant, new(corev1.Service), "derived-vip", func(svc *corev1.Service) {
		svc.Spec.LoadBalancerSourceRanges = []string{"10.66.0.0/16"}
		svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	becomes(s.Namespace, "c1", "derived-vip", "it is put right", isRight)
}

// TestSelectorOfADerivedServiceTakesNoTraffic: with `edit` a tenant gives a derived Service a
// selector that matches their pod. Kubernetes creates slices, and Endpoints, from which it creates
// more slices, and removes neither when the controller removes the selector. The controller deletes
// them. It does not touch a Service of the tenant.
func TestSelectorOfADerivedServiceTakesNoTraffic(t *testing.T) {
	s := newTenants(t)
	vip := s.importedFromC2()
	tenant := s.tenant("c1", "edit")
	s.runsPod(tenant, "spy", "10.66.0.1")
	his := world.Service("derived-his")
	his.Spec.Selector = map[string]string{"app": "spy"}
	s.CreateAs(tenant, his)
	for what, patch := range map[string]string{
		"a selector":                          `{"spec":{"selector":{"app":"spy"}}}`,
		"one, and the label of an import":     `{"metadata":{"labels":{"` + labelService + `":"foo"}},"spec":{"selector":{"app":"spy"}}}`,
		"one, and the label of no import":     `{"metadata":{"labels":{"` + labelService + `":"nobody"}},"spec":{"selector":{"app":"spy"}}}`,
		"one, and endpoints that do not last": `{"spec":{"selector":{"app":"spy"},"publishNotReadyAddresses":true}}`,
	} {
		s.hijacks(tenant, "derived-foo", patch)
		becomes(s.Namespace, "c1", "derived-foo", what+": it is back as it was", func(svc *corev1.Service) bool {
			return svc.Spec.Selector == nil && !svc.Spec.PublishNotReadyAddresses && errors.Join(s.leadsToC2(), s.noEndpoints("derived-foo")) == nil
		})
	}
	s.settled()
	s.Check(errors.Join(s.leadsToC2(), s.noEndpoints("derived-foo"), s.answered("foo", "NOERROR "+vip)))
	s.Until("the tenant's own Service has the tenant's pod", func() error { return s.leads("c1", labelLeadsTo, "derived-his", "10.66.0.1") })
}

// hijacks patches a Service, again and again, until Kubernetes has made a slice of it: the controller may take the patch back sooner.
func (s *tenants) hijacks(by client.Client, name, patch string) {
	s.Helper()
	watching := s.As(s.Cluster("c1").Config)
	made, err := watching.Watch(s.Context(), &discoveryv1.EndpointSliceList{}, client.InNamespace(s.Name), client.MatchingLabels{labelLeadsTo: name})
	s.Must(err)
	defer made.Stop()
	s.Until("Kubernetes makes a slice of "+name, func() error {
		svc := &corev1.Service{}
		svc.Namespace, svc.Name = s.Name, name
		if err := by.Patch(s.Context(), svc, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			return err
		}
		for {
			select {
			case event, open := <-made.ResultChan():
				if !open {
					s.Fatal("the watch has ended")
				}
				if slice, ok := event.Object.(*discoveryv1.EndpointSlice); ok && slice.Labels[labelManager] != controller && len(slice.Endpoints) > 0 {
					return nil
				}
			default:
				return errors.New("none yet")
			}
		}
	})
}

// noEndpoints wants no Endpoints of a name in c1: Kubernetes would make slices of them.
func (s *tenants) noEndpoints(name string) error {
	there := new(metav1.PartialObjectMetadata)
	there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Endpoints"))
	return s.Gone("c1", there, name)
}

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
			announcement, another := announcing("c9")
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
				"announce another id for the own cluster": s.Try(tenant, announcement),
				"change the announced id":                 tenant.Patch(t.Context(), announcement, another),
				"withdraw the announcement":               tenant.Delete(t.Context(), announcement),
			} {
				if !apierrors.IsForbidden(err) {
					t.Errorf("%s: %v; want forbidden", what, err)
				}
			}
		})
	}
}

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
