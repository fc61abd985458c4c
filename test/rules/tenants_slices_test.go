package rules

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/world"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// TestServiceLabelsGiveNoEndpoints: Kubernetes copies the labels of a Service to its slices, and `edit` is enough to label a Service. So
// a tenant has slices with labels of the MCS API without any right to write slices. An import that the controller keeps has none of
// their endpoints, under no name, in no cluster.
func TestServiceLabelsGiveNoEndpoints(t *testing.T) {
	s := newTenants(t)
	vip := s.exportsDBAndFoo()
	tenant := s.tenant("c1", "edit")
	s.runsPod(tenant, "spy", "10.66.0.1")
	for _, name := range []string{"db", "foo", "byhand"} {
		spy := world.Service("spy-of-"+name, world.Headless)
		spy.Labels = map[string]string{labelService: name, labelCluster: "c1", labelManager: controller, labelLeadsTo: "derived-foo"}
		spy.Spec.Selector = map[string]string{"app": "spy"}
		s.CreateAs(tenant, spy)
		s.Until("its slice has the labels", func() error {
			return s.leads("c1", labelService, name, append([]string{"10.66.0.1"}, map[string][]string{"db": {"10.9.1.1"}, "foo": {"10.9.1.1"}}[name]...)...)
		})
	}
	s.settled()
	for below, want := range map[string]string{
		"db": "NOERROR 10.9.1.1", "pod-0.c1.db": "NOERROR 10.9.1.1", "10-66-0-1.c1.db": "NXDOMAIN", "spy.c1.db": "NXDOMAIN", "foo": "NOERROR " + vip,
	} {
		s.Check(s.answered(below, want))
	}
	s.Check(s.leads("c1", labelLeadsTo, "derived-foo", "10.9.1.1"))
	for _, name := range []string{"db", "foo"} {
		s.Check(s.hasEndpoints("c2", name, "10.9.1.1"))
	}
	// In an import of others, the author of a slice's label decides on its endpoints: so the API
	// works between them.
	s.Create("c1", world.Import("byhand", mcsv1beta1.Headless))
	s.answers("byhand", "NOERROR 10.66.0.1")
}

// runsPod makes a pod that runs on a node, as a kubelet reports it.
func (s *tenants) runsPod(by client.Client, app, ip string) {
	s.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-of-" + s.Name}}
	s.Must(s.Admin("c1").Create(s.Context(), node))
	s.Cleanup(func() { _ = s.Admin("c1").Delete(s.Late(), node) })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: app, Labels: map[string]string{"app": app}}}
	pod.Spec = corev1.PodSpec{NodeName: node.Name, ServiceAccountName: "tenant", Containers: []corev1.Container{{Name: app, Image: "none"}}}
	s.CreateAs(by, pod)
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	s.Must(s.Admin("c1").Status().Update(s.Context(), pod))
}

// spies are slices that users with permission to write slices can create in their namespace. None
// has the controller's mark.
func spies(imp *mcsv1beta1.ServiceImport) map[string]*discoveryv1.EndpointSlice {
	labels := func(more ...string) map[string]string {
		all := map[string]string{labelService: imp.Name, labelCluster: "c1"}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	owned := world.Slice("spy-owned", labels(), "10.66.0.1")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: "ServiceImport", Name: imp.Name, UID: imp.UID}}
	return map[string]*discoveryv1.EndpointSlice{
		"nobody's":                            world.Slice("spy-nobodys", labels(), "10.66.0.1"),
		"his own":                             world.Slice("spy-his", labels(labelManager, "me"), "10.66.0.2"),
		"as if Kubernetes had made it":        world.Slice("spy-kubernetes", labels(labelManager, "endpointslice-controller.k8s.io"), "10.66.0.3"),
		"as if Karmada had made it":           world.Slice("spy-karmada", labels(labelManager, "endpointslice-controller.karmada.io"), "10.66.0.4"),
		"associated with the derived Service": world.Slice("spy-led", labels(labelLeadsTo, "derived-"+imp.Name), "10.66.0.5"),
		"of another cluster":                  world.Slice("spy-c2", labels(labelCluster, "c2"), "10.66.0.6"),
		"of a cluster that does not exist":    world.Slice("spy-c9", labels(labelCluster, "c9"), "10.66.0.7"),
		"of no cluster":                       world.Slice("spy-c0", labels(labelCluster, ""), "10.66.0.8"),
		"owned by the import":                 owned,
		"under a name of ours, not led":       world.Slice(imp.Name+".c2.ipv4-0123456789", labels(labelCluster, "c2"), "10.66.0.9"),
	}
}

// TestSlicesOfOthersGiveNoEndpoints: with the right to write slices in a namespace, a tenant adds nothing to an import there that the
// controller keeps, and takes no name from it: point 5 of the issue, C32.
func TestSlicesOfOthersGiveNoEndpoints(t *testing.T) {
	s := newTenants(t)
	vip := s.exportsDBAndFoo()
	tenant := s.tenant("c1", "edit", slicesToo)
	for _, name := range []string{"db", "foo"} {
		imp := s.MustImport("c1", name)
		for what, spy := range spies(imp) {
			spy.Name = strings.Replace(spy.Name, "spy-", "spy-of-"+name+"-", 1)
			if err := s.Try(tenant, spy); err != nil {
				t.Fatalf("a slice %s: %v", what, err)
			}
		}
	}
	s.Says("c1", "foo", "Ready", "Ready", "EndpointSlices that multicluster-controller does not manage")
	s.Says("c1", "db", "Ready", "Ready", "EndpointSlices that multicluster-controller does not manage")
	s.settled()
	for below, want := range map[string]string{
		"db": "NOERROR 10.9.1.1", "pod-0.c1.db": "NOERROR 10.9.1.1", "pod-0.c2.db": "NXDOMAIN", "c9.db": "NXDOMAIN", "foo": "NOERROR " + vip,
	} {
		s.Check(s.answered(below, want))
	}
	s.Check(resolver.Differs("udp", s.server, s.name("_http._tcp.db")+" SRV", "NOERROR 0 100 8080 pod-0.c1."+s.name("db")))
	s.Until("the derived Service has its own endpoints only", func() error {
		return s.leads("c1", labelLeadsTo, "derived-foo", "10.9.1.1")
	})
	for _, name := range []string{"db", "foo"} {
		if err := s.hasEndpoints("c2", name, "10.9.1.1"); err != nil {
			t.Errorf("the peer: %v", err)
		}
	}
}

// TestEndpointsOfAnExportedServiceAreItsNames: the endpoints of an exported Service are the
// endpoints of its name in all clusters, also with the policy: slices of users with permission to
// write them, and with `edit` alone the pods that a selector matches.
func TestEndpointsOfAnExportedServiceAreItsNames(t *testing.T) {
	hisOwn := func(s *tenants, tenant client.Client) {
		s.CreateAs(tenant, world.Slice("spy", map[string]string{labelLeadsTo: "db"}, "10.66.0.1"))
	}
	for how, c := range map[string]struct {
		more   []rbacv1.PolicyRule
		policy bool
		lead   func(s *tenants, tenant client.Client)
	}{
		"by a slice":                  {[]rbacv1.PolicyRule{slicesToo}, false, hisOwn},
		"by a slice, with the policy": {[]rbacv1.PolicyRule{slicesToo, importsToo}, true, hisOwn},
		"by a selector": {nil, false, func(s *tenants, tenant client.Client) {
			s.runsPod(tenant, "spy", "10.66.0.1")
			world.EditAs(s.Namespace, tenant, new(corev1.Service), "db", func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"app": "spy"} })
		}},
	} {
		t.Run(how, func(t *testing.T) {
			s := newTenants(t)
			// A slice that Kubernetes' own controller leaves to its author, as the Service has a selector.
			db := world.Service("db", world.Headless, world.Selecting("db"))
			s.Create("c1", db, world.Slice("db-own", map[string]string{labelLeadsTo: "db"}, "10.9.1.1"), world.Export("db"))
			s.answers("db", "NOERROR 10.9.1.1")
			tenant := s.tenant("c1", "edit", c.more...)
			if c.policy {
				s.enforce(tenant)
			}
			c.lead(s, tenant)
			s.answers("db", "NOERROR 10.66.0.1 10.9.1.1")
			s.Until("so it does in c2", func() error { return s.hasEndpoints("c2", "db", "10.66.0.1", "10.9.1.1") })
		})
	}
}

// TestAddressesOfEndpoints: what the API server takes for an endpoint's address, and what a peer gets of it. A Service without a
// selector leads where its maker says: to pods and nodes of others, too, as they could be reached by address; to no node's own
// loopback, and to no metadata service.
func TestAddressesOfEndpoints(t *testing.T) {
	s := newTenants(t)
	tenant := s.tenant("c1", "edit", slicesToo, exportsToo)
	s.CreateAs(tenant, world.Service("foo"), world.Export("foo"))
	led := map[string]string{labelLeadsTo: "foo"}
	for what, address := range map[string]string{
		"loopback": "127.0.0.1", "the metadata service": "169.254.169.254", "NodeLocal DNSCache": "169.254.20.10", "unspecified": "0.0.0.0",
		"all hosts": "224.0.0.1", "IPv6 loopback": "::1", "IPv6 link-local": "fe80::1",
	} {
		slice := world.Slice("refused", led, address)
		if strings.Contains(address, ":") {
			slice.AddressType = discoveryv1.AddressTypeIPv6
		}
		if err := s.Try(tenant, slice); !apierrors.IsInvalid(err) {
			t.Errorf("%s, %s: %v; want invalid", what, address, err)
		}
	}
	s.CreateAs(tenant, world.Slice("taken", led, "10.9.5.5", "172.18.0.2")) // a pod's of another namespace, and a node's
	s.Until("the peer leads where the Service does", func() error { return s.leads("c2", labelLeadsTo, "derived-foo", "10.9.5.5", "172.18.0.2") })
}

// TestSlicesOfOneNamespaceAreOfNoOther: the slices of a tenant belong to names of their namespace
// only, whatever their labels are.
func TestSlicesOfOneNamespaceAreOfNoOther(t *testing.T) {
	theirs, s := newTenants(t), newTenants(t)
	theirs.Export("c1", world.Service("db", world.Headless), "10.9.1.1")
	theirs.answers("db", "NOERROR 10.9.1.1")
	theirs.Create("c1", world.Import("byhand", mcsv1beta1.Headless),
		world.Slice("byhand", map[string]string{labelService: "byhand", labelCluster: "c1"}, "10.9.1.2"))
	tenant := s.tenant("c1", "admin", slicesToo, importsToo, exportsToo)
	for i, name := range []string{"db", "byhand"} {
		for j, manager := range []string{"me", controller} {
			labels := map[string]string{labelService: name, labelCluster: "c1", labelManager: manager}
			s.CreateAs(tenant, world.Slice(fmt.Sprintf("spy-%d-%d", i, j), labels, "10.66.0.1"))
			labels[labelService] = name + "." + theirs.Name
			s.CreateAs(tenant, world.Slice(fmt.Sprintf("dotted-%d-%d", i, j), labels, "10.66.0.1"))
		}
	}
	err := theirs.Try(tenant, world.Slice("spy", map[string]string{labelService: "db", labelCluster: "c1"}, "10.66.0.1"))
	if !apierrors.IsForbidden(err) {
		t.Errorf("a slice in another namespace: %v; want forbidden", err)
	}
	s.settled()
	for name, want := range map[string]string{"db": "NOERROR 10.9.1.1", "byhand": "NOERROR 10.9.1.2"} {
		s.Check(theirs.answered(name, want))
	}
}
