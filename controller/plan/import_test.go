package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

var (
	fullCRD    = observed.CRD{APIVersion: "multicluster.x-k8s.io/v1beta1", MaxIPs: 2, IPFamilies: true, Conditions: true}
	karmadaCRD = observed.CRD{APIVersion: "multicluster.x-k8s.io/v1alpha1", MaxIPs: 1}
	noon       = metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
)

// world is the state of one import, with a minimal simulation of the behaviour of an API server
// that plans depend on: a created Service gets addresses, and a Service that changes to ClusterIP
// loses its ingress. The tests in ../reconcile show what a real server does.
type world struct {
	imp      *mcsv1beta1.ServiceImport
	services map[string]*corev1.Service
	slices   []*discoveryv1.EndpointSlice
	karmadas []*discoveryv1.EndpointSlice // of its derived Service
	crd      observed.CRD
	families []corev1.IPFamily // of the cluster
	taken    map[string]bool   // addresses that others have
	next     int
	events   []desired.Event
	last     metav1.Condition

	contested     contested.Fields
	readyByOthers bool
	// associated is the Service of each slice of the controller that had one.
	associated map[string]string
}

func newWorld(imp *mcsv1beta1.ServiceImport) *world {
	imp.Namespace, imp.UID, imp.Generation = "default", "u1", 1
	return &world{imp: imp, services: map[string]*corev1.Service{}, crd: fullCRD, families: []corev1.IPFamily{corev1.IPv4Protocol}, taken: map[string]bool{}}
}

func (w *world) state() observed.State {
	st := observed.State{Import: w.imp, Slices: w.slices, UnexpectedSlices: w.karmadas, CRD: w.crd, Now: noon, LastReady: w.last, Contested: w.contested, ReadyByOthers: w.readyByOthers}
	if w.imp != nil {
		st.Service = w.services[ownership.DerivedName(w.imp)]
	}
	for _, svc := range w.services {
		st.AddressHolders = append(st.AddressHolders, svc)
		if slices.Contains(ownership.OwnerImports(svc), w.imp.Name) {
			st.Owned = append(st.Owned, svc)
		}
	}
	return st
}

// plan plans once, with the refusals that the cluster answers.
func (w *world) plan() diff.Changes {
	st := w.state()
	for {
		c := Plan(st)
		if c.Create == nil {
			return c
		}
		refusal, refused := w.refuse(c.Create)
		if !refused {
			return c
		}
		st.Refused = append(st.Refused, refusal)
	}
}

func (w *world) refuse(svc *corev1.Service) (observed.Refusal, bool) {
	for _, f := range svc.Spec.IPFamilies {
		if !slices.Contains(w.families, f) {
			return observed.Refusal{Field: "spec.ipFamilies[0]", Message: "not configured on this cluster"}, true
		}
	}
	for _, ip := range svc.Spec.ClusterIPs {
		if w.taken[ip] {
			return observed.Refusal{Field: "spec.clusterIPs", Message: "provided IP is already allocated"}, true
		}
	}
	return observed.Refusal{}, false
}

// apply makes the first n writes, in the order of the fields of Changes. It returns the number of
// writes that were planned.
func (w *world) apply(c diff.Changes, n int) int {
	var writes []func()
	add := func(planned bool, write func()) {
		if planned {
			writes = append(writes, write)
		}
	}
	add(c.Create != nil, func() { w.create(c.Create) })
	add(c.Service != nil, func() { w.services[c.Service.New.Name] = allocate(c.Service.New, w) })
	add(c.ServiceStatus != nil, func() { w.services[c.ServiceStatus.New.Name] = c.ServiceStatus.New })
	for _, slice := range c.CreateSlices {
		add(true, func() { w.slices = append(w.slices, slice) })
	}
	for _, one := range c.SwitchSlices {
		add(true, func() { w.slices[slices.Index(w.slices, one.Slice)] = one.Switched(one.Slice) })
	}
	for _, edit := range c.UpdateSlices {
		add(true, func() { w.slices[slices.Index(w.slices, edit.Old)] = edit.New })
	}
	for _, gone := range c.DeleteSlices {
		add(true, func() {
			w.slices = slices.DeleteFunc(w.slices, func(s *discoveryv1.EndpointSlice) bool { return s == gone })
		})
	}
	for _, move := range c.MoveSlices {
		add(true, func() { w.slices[slices.Index(w.slices, move.Slice)] = move.Moved(move.Slice) })
	}
	for _, gone := range c.Evict {
		add(true, func() {
			w.slices = slices.DeleteFunc(w.slices, func(s *discoveryv1.EndpointSlice) bool { return s == gone })
		})
	}
	add(c.Import != nil, func() {
		w.imp = c.Import.New
		w.imp.Generation++
	})
	add(c.ImportStatus != nil, func() { w.imp = c.ImportStatus.New })
	for _, edit := range c.Slices {
		add(true, func() { w.slices[slices.Index(w.slices, edit.Old)] = edit.New })
	}
	for _, svc := range c.Delete {
		add(true, func() { delete(w.services, svc.Name) })
	}
	for _, write := range writes[:min(n, len(writes))] {
		write()
	}
	if n >= len(writes) {
		w.events = append(w.events, c.Events...)
	}
	w.checkAssociations()
	return len(writes)
}

// checkAssociations panics if a slice of the controller has ever belonged to two Services:
// kube-proxy would keep its endpoints in the first Service.
func (w *world) checkAssociations() {
	if w.associated == nil {
		w.associated = map[string]string{}
	}
	for _, s := range w.slices {
		service, has := s.Labels[discoveryv1.LabelServiceName]
		if s.Labels[discoveryv1.LabelManagedBy] != mcs.ControllerName {
			continue
		}
		if was, known := w.associated[s.Name]; known && was != service {
			panic(fmt.Sprintf("slice %s belonged to Service %q, and now to %q", s.Name, was, service))
		}
		if has {
			w.associated[s.Name] = service
		}
	}
}

func (w *world) create(svc *corev1.Service) {
	svc = svc.DeepCopy()
	for i := range svc.Spec.Ports {
		if svc.Spec.Ports[i].TargetPort.IntVal == 0 {
			svc.Spec.Ports[i].TargetPort.IntVal = svc.Spec.Ports[i].Port
		}
	}
	if len(svc.Spec.IPFamilies) == 0 {
		svc.Spec.IPFamilies = w.families[:1]
		svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
	}
	w.services[svc.Name] = allocate(svc, w)
}

func allocate(svc *corev1.Service, w *world) *corev1.Service {
	if *svc.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack {
		for _, f := range w.families {
			if !slices.Contains(svc.Spec.IPFamilies, f) {
				svc.Spec.IPFamilies = append(svc.Spec.IPFamilies, f)
			}
		}
	}
	for i := len(svc.Spec.ClusterIPs); i < len(svc.Spec.IPFamilies); i++ {
		w.next++
		pattern := "10.0.0.%d"
		if svc.Spec.IPFamilies[i] == corev1.IPv6Protocol {
			pattern = "fd00::%d"
		}
		svc.Spec.ClusterIPs = append(svc.Spec.ClusterIPs, fmt.Sprintf(pattern, w.next))
	}
	svc.Spec.ClusterIP = svc.Spec.ClusterIPs[0]
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
	return svc
}

// settle plans and applies until nothing is missing, and checks that this is stable.
func (w *world) settle(t *testing.T) {
	t.Helper()
	for range 20 {
		c := w.plan()
		if c.Empty() {
			return
		}
		w.apply(c, 100)
		w.last = c.Ready
	}
	t.Fatalf("does not settle: %+v", w.plan())
}

func (w *world) svc() *corev1.Service { return w.services[ownership.DerivedName(w.imp)] }

func (w *world) ready() string {
	for _, c := range w.imp.Status.Conditions {
		return string(c.Status) + "/" + c.Reason
	}
	return "none"
}

func (w *world) message() string { return w.imp.Status.Conditions[0].Message }

// labels returns the Services that the slices belong to. A copy that the controller made of another
// owner's slice is named "ours".
func labels(w *world) []string {
	var all []string
	for _, s := range w.slices {
		name := s.Name
		if s.Labels[discoveryv1.LabelManagedBy] == mcs.ControllerName {
			name = "ours"
		}
		all = append(all, name+"="+s.Labels[discoveryv1.LabelServiceName])
	}
	return all
}

func told(w *world, reason string) bool {
	return slices.ContainsFunc(w.events, func(e desired.Event) bool { return e.Reason == reason })
}

func (w *world) clone() *world {
	c := *w
	c.imp = w.imp.DeepCopy()
	c.services = map[string]*corev1.Service{}
	for name, svc := range w.services {
		c.services[name] = svc.DeepCopy()
	}
	c.slices = nil
	for _, s := range w.slices {
		c.slices = append(c.slices, s.DeepCopy())
	}
	return &c
}

func clusterSetImport(name string, edits ...func(*mcsv1beta1.ServiceImport)) *mcsv1beta1.ServiceImport {
	imp := &mcsv1beta1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{{Name: "http", Port: 80}}},
	}
	for _, edit := range edits {
		edit(imp)
	}
	return imp
}

func withIPs(ips ...string) func(*mcsv1beta1.ServiceImport) {
	return func(imp *mcsv1beta1.ServiceImport) { imp.Spec.IPs = ips }
}

func slice(name, service string, labels ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{mcsv1beta1.LabelServiceName: service}}, AddressType: discoveryv1.AddressTypeIPv4,
	}
	for i := 0; i < len(labels); i += 2 {
		s.Labels[labels[i]] = labels[i+1]
	}
	return s
}

// karmadas is a slice that Karmada propagates with the import db.
func karmadas(name, address string) *discoveryv1.EndpointSlice {
	s := slice(name, "", discoveryv1.LabelServiceName, "derived-db", discoveryv1.LabelManagedBy, mcs.KarmadaSlices)
	delete(s.Labels, mcsv1beta1.LabelServiceName)
	s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{address}}}
	return s
}

// scenarios are histories: a complete world, then a change, then the expected result.
var scenarios = []struct {
	name   string
	world  func() *world
	change func(*world)
	check  func(*testing.T, *world)
}{
	{
		name:  "an import gets a derived Service, its address and the annotations that explain it (R11)",
		world: func() *world { return newWorld(clusterSetImport("foo")) },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "ipFamilies", w.imp.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol})
			equal(t, "annotations", w.imp.Annotations, map[string]string{mcs.AnnotationDerivedService: "derived-foo", mcs.AnnotationClusterIPs: "10.0.0.1"})
			equal(t, "owners", w.svc().OwnerReferences, []metav1.OwnerReference{{
				APIVersion: fullCRD.APIVersion, Kind: "ServiceImport", Name: "foo", UID: "u1", Controller: new(true)}})
			equal(t, "ready", w.ready(), "True/Ready")
		},
	},
	{
		name:   "a derived Service that was deleted comes back with its address (C24)",
		world:  func() *world { return newWorld(clusterSetImport("foo")) },
		change: func(w *world) { delete(w.services, "derived-foo") },
		check: func(t *testing.T, w *world) {
			equal(t, "address", w.svc().Spec.ClusterIPs, []string{"10.0.0.1"})
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
		},
	},
	{
		name:  "an address that was taken meanwhile is replaced, with an event",
		world: func() *world { return newWorld(clusterSetImport("foo")) },
		change: func(w *world) {
			delete(w.services, "derived-foo")
			w.taken["10.0.0.1"] = true
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.2"})
			equal(t, "recorded", w.imp.Annotations[mcs.AnnotationClusterIPs], "10.0.0.2")
			equal(t, "event", w.events[len(w.events)-1].Reason, desired.EventAddressChanged)
		},
	},
	{
		name: "a user's VIP stays, and the Service answers on it (R5)",
		world: func() *world {
			return newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Spec.IPs = []string{"1.2.3.4"} }))
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"1.2.3.4"})
			equal(t, "type", w.svc().Spec.Type, corev1.ServiceTypeLoadBalancer)
			equal(t, "class", *w.svc().Spec.LoadBalancerClass, mcs.LoadBalancerClass)
			equal(t, "ingress", w.svc().Status.LoadBalancer.Ingress, []corev1.LoadBalancerIngress{{IP: "1.2.3.4", IPMode: new(corev1.LoadBalancerIPModeVIP)}})
			equal(t, "ready", w.ready(), "True/Ready")
		},
	},
	{
		name: "a user empties ips again, and gets the ClusterIP",
		world: func() *world {
			return newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Spec.IPs = []string{"1.2.3.4"} }))
		},
		change: func(w *world) { w.imp.Spec.IPs = nil },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "type", w.svc().Spec.Type, corev1.ServiceTypeClusterIP)
			equal(t, "class", w.svc().Spec.LoadBalancerClass == nil, true)
		},
	},
	{
		name: "garbage in a user's ips costs only itself",
		world: func() *world {
			return newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Spec.IPs = []string{"1.2.3.4", "nonsense"} }))
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"1.2.3.4", "nonsense"})
			equal(t, "ingress", len(w.svc().Status.LoadBalancer.Ingress), 1)
			equal(t, "event", w.events[0].Reason, desired.EventPartlyServed)
		},
	},
	{
		name: "ips that hold no address at all are the user's, and not ready",
		world: func() *world {
			return newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Spec.IPs = []string{"nonsense"} }))
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"nonsense"})
			equal(t, "ready", w.ready(), "False/"+desired.ReasonInvalidIPs)
		},
	},
	{
		name: "an address with a zone is garbage: not ready, and no family of the import's (C19)",
		world: func() *world {
			return newWorld(clusterSetImport("foo", withIPs("nonsense", "2001:db8::1%eth0")))
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ipFamilies", len(w.imp.Spec.IPFamilies), 0)
			equal(t, "ready", w.ready(), "False/"+desired.ReasonInvalidIPs)
			equal(t, "named", strings.Contains(w.message(), `"2001:db8::1%eth0"`), true)
		},
	},
	{
		name:   "garbage in ips is forgotten when a user empties them (C19, C27)",
		world:  func() *world { return newWorld(clusterSetImport("foo", withIPs("nonsense", "2001:db8::1%eth0"))) },
		change: func(w *world) { w.imp.Spec.IPs = nil },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "ipFamilies", w.imp.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol})
			equal(t, "ready", w.ready(), "True/Ready")
		},
	},
	{
		name: "addresses that are a node's own are no VIPs: left out, not ready",
		world: func() *world {
			return newWorld(clusterSetImport("foo", withIPs("127.0.0.1", "0.0.0.0")))
		},
		check: func(t *testing.T, w *world) {
			equal(t, "type", w.svc().Spec.Type, corev1.ServiceTypeClusterIP)
			equal(t, "ingress", len(w.svc().Status.LoadBalancer.Ingress), 0)
			equal(t, "ready", w.ready(), "False/"+desired.ReasonInvalidIPs)
			equal(t, "named", strings.Contains(w.message(), "127.0.0.1 in spec.ips, which is a loopback address"), true)
		},
	},
	{
		name: "another Service's ClusterIP cannot be a VIP: the stale ips of a copied import take no traffic, and the condition reports it",
		world: func() *world {
			w := newWorld(clusterSetImport("foo", withIPs("10.0.0.99")))
			w.services["kubernetes"] = others("kubernetes", "10.0.0.99")
			return w
		},
		check: func(t *testing.T, w *world) {
			equal(t, "type", w.svc().Spec.Type, corev1.ServiceTypeClusterIP)
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.99"})
			equal(t, "ready", w.ready(), "False/"+desired.ReasonInvalidIPs)
			equal(t, "message", w.message(), "spec.ips contains only addresses that a Service cannot have: "+
				"remove them to get the addresses of Service derived-foo; left out: 10.0.0.99 in spec.ips, which is the ClusterIP of Service default/kubernetes")
		},
	},
	{
		name:   "a VIP that becomes a Service's ClusterIP is given up, another beside it is not",
		world:  func() *world { return newWorld(clusterSetImport("foo", withIPs("10.0.0.99", "1.2.3.4"))) },
		change: func(w *world) { w.services["late"] = others("late", "10.0.0.99") },
		check: func(t *testing.T, w *world) {
			equal(t, "ingress", w.svc().Status.LoadBalancer.Ingress, []corev1.LoadBalancerIngress{{IP: "1.2.3.4", IPMode: new(corev1.LoadBalancerIPModeVIP)}})
			equal(t, "ready", w.ready(), "True/Ready")
			equal(t, "told", told(w, desired.EventPartlyServed), true)
		},
	},
	{
		name: "stale ips that came with their annotations are replaced by addresses of this cluster, with an event",
		world: func() *world {
			w := newWorld(clusterSetImport("foo", withIPs("10.0.0.99"), func(i *mcsv1beta1.ServiceImport) {
				i.Annotations = map[string]string{mcs.AnnotationDerivedService: "derived-foo", mcs.AnnotationClusterIPs: "10.0.0.99"}
			}))
			w.services["kubernetes"], w.taken["10.0.0.99"] = others("kubernetes", "10.0.0.99"), true
			return w
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "ready", w.ready(), "True/Ready")
			equal(t, "told", told(w, desired.EventAddressChanged), true)
		},
	},
	{
		name:  "an IPv4-mapped VIP is an IPv4 one to the Service",
		world: func() *world { return newWorld(clusterSetImport("foo", withIPs("::ffff:1.2.3.4"))) },
		check: func(t *testing.T, w *world) {
			equal(t, "ingress", w.svc().Status.LoadBalancer.Ingress[0].IP, "1.2.3.4")
			equal(t, "ready", w.ready(), "True/Ready")
		},
	},
	{
		name: "a VIP of a family that the cluster lacks, beside one that it has, is reported",
		world: func() *world {
			return newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Spec.IPs = []string{"1.2.3.4", "fd00::1234"} }))
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"1.2.3.4", "fd00::1234"})
			equal(t, "ready", w.ready(), "True/Ready")
			equal(t, "named", strings.Contains(w.imp.Status.Conditions[0].Message, "fd00::1234"), true)
		},
	},
	{
		name: "a VIP of the other family gets the Service a second one",
		world: func() *world {
			w := newWorld(clusterSetImport("foo"))
			w.families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
			return w
		},
		change: func(w *world) { w.imp.Spec.IPs = []string{"fd00::1234"} },
		check: func(t *testing.T, w *world) {
			equal(t, "families", w.svc().Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol})
			equal(t, "ipFamilies", w.imp.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol})
			equal(t, "ready", w.ready(), "True/Ready")
		},
	},
	{
		name: "a VIP of the other family comes and goes: the import is as it was before (C19, C24)",
		world: func() *world {
			w := newWorld(clusterSetImport("foo"))
			w.families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
			w.settleQuietly()
			w.imp.Spec.IPs = []string{"2001:db8::9"}
			return w
		},
		change: func(w *world) { w.imp.Spec.IPs = nil },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "ipFamilies", w.imp.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol})
			equal(t, "address", w.svc().Spec.ClusterIPs, []string{"10.0.0.1"})
			equal(t, "ready", w.ready(), "True/Ready")
			equal(t, "told a change", told(w, desired.EventAddressChanged), false)
		},
	},
	{
		name: "a VIP of one family comes and goes on a dual-stack import: both addresses stay (C19, C24)",
		world: func() *world {
			w := dualWorld(corev1.IPv4Protocol, corev1.IPv6Protocol)
			w.settleQuietly()
			w.imp.Spec.IPs = []string{"1.2.3.4"}
			return w
		},
		change: func(w *world) { w.imp.Spec.IPs = nil },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1", "fd00::2"})
			equal(t, "ipFamilies", w.imp.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol})
			equal(t, "told a change", told(w, desired.EventAddressChanged), false)
		},
	},
	{
		name: "an import that comes with ipFamilies and a VIP of the second has the first when the VIP goes (C19)",
		world: func() *world {
			w := dualWorld(corev1.IPv4Protocol)
			w.imp.Spec.IPs = []string{"2001:db8::9"}
			return w
		},
		change: func(w *world) { w.imp.Spec.IPs = nil },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "ipFamilies", w.imp.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol})
			equal(t, "ready", w.ready(), "True/Ready")
		},
	},
	{
		name: "a VIP of a family that the cluster lacks leaves nothing behind when it goes",
		world: func() *world {
			w := newWorld(clusterSetImport("foo"))
			w.settleQuietly()
			w.imp.Spec.IPs = []string{"2001:db8::9"}
			return w
		},
		change: func(w *world) { w.imp.Spec.IPs = nil },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "policy", *w.svc().Spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
			equal(t, "message", w.message(), "served by Service derived-foo")
		},
	},
	{
		name: "a user hands the name over to another Service, as the condition suggests: it is followed, the controller's is deleted",
		world: func() *world {
			w := newWorld(clusterSetImport("foo"))
			w.services["theirs"] = others("theirs", "10.0.9.9")
			return w
		},
		change: func(w *world) { w.imp.Annotations = map[string]string{mcs.AnnotationDerivedService: "theirs"} },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.9.9"})
			equal(t, "services", len(w.services), 1)
			equal(t, "service", w.svc(), others("theirs", "10.0.9.9"))
		},
	},
	{
		name: "a flip to Headless takes Service, ips and the slices' label away (C16, C25; R6 leaves them)",
		world: func() *world {
			w := newWorld(clusterSetImport("foo"))
			w.slices = []*discoveryv1.EndpointSlice{slice("a", "foo")}
			return w
		},
		change: func(w *world) { w.imp.Spec.Type = mcsv1beta1.Headless },
		check: func(t *testing.T, w *world) {
			equal(t, "services", len(w.services), 0)
			equal(t, "ips", len(w.imp.Spec.IPs)+len(w.imp.Spec.IPFamilies), 0)
			equal(t, "label", w.slices[0].Labels, map[string]string{mcsv1beta1.LabelServiceName: "foo"})
			equal(t, "recorded", w.imp.Annotations[mcs.AnnotationClusterIPs], "10.0.0.1")
			equal(t, "ready", w.ready(), "True/Ready")
		},
	},
	{
		name:  "a flip to Headless leaves alone a slice that somebody leads elsewhere (R8)",
		world: ledWorld,
		change: func(w *world) {
			w.imp.Spec.Type = mcsv1beta1.Headless
			w.slices = append(w.slices, slice("b", "foo", discoveryv1.LabelServiceName, "elsewhere"))
		},
		check: func(t *testing.T, w *world) { equal(t, "labels", labels(w), []string{"a=", "b=elsewhere"}) },
	},
	{
		name: "a flip to Headless and back brings the same address again (C16, C24)",
		world: func() *world {
			w := newWorld(clusterSetImport("foo"))
			w.settleQuietly()
			w.imp.Spec.Type = mcsv1beta1.Headless
			return w
		},
		change: func(w *world) {
			w.next = 7
			w.imp.Spec.Type = mcsv1beta1.ClusterSetIP
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "address", w.svc().Spec.ClusterIP, "10.0.0.1")
		},
	},
	{
		name: "a flip to Headless puts a user's VIP aside",
		world: func() *world {
			return newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Spec.IPs = []string{"1.2.3.4"} }))
		},
		change: func(w *world) { w.imp.Spec.Type = mcsv1beta1.Headless },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", len(w.imp.Spec.IPs), 0)
			equal(t, "aside", w.imp.Annotations[mcs.AnnotationVIPs], "1.2.3.4")
		},
	},
	{
		name: "the flip back brings the user's VIP again",
		world: func() *world {
			w := newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Spec.IPs = []string{"1.2.3.4"} }))
			w.settleQuietly()
			w.imp.Spec.Type = mcsv1beta1.Headless
			return w
		},
		change: func(w *world) { w.imp.Spec.Type = mcsv1beta1.ClusterSetIP },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"1.2.3.4"})
			_, aside := w.imp.Annotations[mcs.AnnotationVIPs]
			equal(t, "aside", aside, false)
			equal(t, "ingress", w.svc().Status.LoadBalancer.Ingress[0].IP, "1.2.3.4")
			equal(t, "address", w.svc().Spec.ClusterIP, "10.0.0.1")
		},
	},
	{
		name: "a Service that happens to have the name is neither read nor written (R9)",
		world: func() *world {
			w := newWorld(clusterSetImport("foo"))
			w.services["derived-foo"] = others("derived-foo", "10.0.9.9")
			w.slices = []*discoveryv1.EndpointSlice{slice("a", "foo")}
			return w
		},
		check: func(t *testing.T, w *world) {
			equal(t, "service", w.svc(), others("derived-foo", "10.0.9.9"))
			equal(t, "ips", len(w.imp.Spec.IPs), 0)
			equal(t, "slices", len(w.slices[0].Labels), 1)
			equal(t, "ready", w.ready(), "False/"+desired.ReasonForeignService)
			equal(t, "events", len(w.events), 1)
		},
	},
	{
		name:  "a Service put in place of our deleted one is foreign: it gets no endpoints, and DNS no address that we no longer have",
		world: ledWorld,
		change: func(w *world) {
			w.services["derived-foo"] = others("derived-foo", "10.0.9.9")
			w.slices = append(w.slices, slice("b", "foo", discoveryv1.LabelServiceName, "elsewhere"))
		},
		check: func(t *testing.T, w *world) {
			equal(t, "service", w.svc(), others("derived-foo", "10.0.9.9"))
			equal(t, "ips", len(w.imp.Spec.IPs), 0)
			equal(t, "recorded", w.imp.Annotations[mcs.AnnotationClusterIPs], "10.0.0.1")
			equal(t, "labels", labels(w), []string{"a=", "b=elsewhere"})
			equal(t, "ready", w.ready(), "False/"+desired.ReasonForeignService)
		},
	},
	{
		name: "a foreign Service goes again: the address and the endpoints come back (C24)",
		world: func() *world {
			w := ledWorld()
			w.services["derived-foo"] = others("derived-foo", "10.0.9.9")
			return w
		},
		change: func(w *world) { delete(w.services, "derived-foo") },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "ipFamilies", w.imp.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol})
			equal(t, "labels", labels(w), []string{"a=", "ours=derived-foo"})
			equal(t, "ready", w.ready(), "True/Ready")
		},
	},
	{
		name:  "a headless Service under our marks is made again, with another address where ours is somebody's by now",
		world: ledWorld,
		change: func(w *world) {
			takenFrom(w)
			w.svc().Spec.ClusterIP, w.svc().Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.2"})
			equal(t, "address", w.svc().Spec.ClusterIP, "10.0.0.2")
			equal(t, "ready", w.ready(), "True/Ready")
			equal(t, "told", told(w, desired.EventAddressChanged), true)
		},
	},
	{
		name:  "of two addresses somebody has the first by now: the families stay in their order",
		world: func() *world { return settled(dualWorld(corev1.IPv4Protocol, corev1.IPv6Protocol)) },
		change: func(w *world) {
			takenFrom(w)
			delete(w.services, "derived-foo")
		},
		check: func(t *testing.T, w *world) {
			equal(t, "families", w.svc().Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol})
			equal(t, "ips", w.imp.Spec.IPs, w.svc().Spec.ClusterIPs)
			equal(t, "somebody's is left out", slices.Contains(w.imp.Spec.IPs, "10.0.0.1"), false)
			equal(t, "ready", w.ready(), "True/Ready")
		},
	},
	{
		name: "an own address beside a user's VIP that another Service has now leaves ips",
		world: func() *world {
			w := ledWorld()
			w.imp.Spec.IPs = []string{"10.0.0.1", "192.0.2.7"}
			return settled(w)
		},
		change: func(w *world) {
			takenFrom(w)
			delete(w.services, "derived-foo")
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"192.0.2.7"})
			equal(t, "address", w.svc().Spec.ClusterIP, "10.0.0.2")
		},
	},
	{
		name:  "a headless Service under our marks that a finalizer holds: DNS has no address that we no longer have",
		world: ledWorld,
		change: func(w *world) {
			w.svc().Spec.ClusterIP, w.svc().Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
			w.svc().DeletionTimestamp = &noon
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", len(w.imp.Spec.IPs), 0)
			equal(t, "recorded", w.imp.Annotations[mcs.AnnotationClusterIPs], "10.0.0.1")
			equal(t, "ready", w.ready(), "False/Pending")
		},
	},
	{
		name: "a headless Service under our marks takes no VIP from a user",
		world: func() *world {
			w := ledWorld()
			w.imp.Spec.IPs = []string{"1.2.3.4"}
			return w
		},
		change: func(w *world) {
			w.svc().Spec.ClusterIP, w.svc().Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"1.2.3.4"})
			equal(t, "address", w.svc().Spec.ClusterIP, "10.0.0.1")
		},
	},
	{
		name:  "our marks make no Service a former one of ours: its address is not the import's (C24)",
		world: ledWorld,
		change: func(w *world) {
			takenFrom(w)
			owned(w.services["late"], w.imp, fullCRD)
			w.services["derived-foo"] = others("derived-foo", "10.0.9.9")
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", len(w.imp.Spec.IPs), 0)
			equal(t, "labels", labels(w), []string{"a="})
			equal(t, "ready", w.ready(), "False/"+desired.ReasonForeignService)
		},
	},
	{
		name:  "nor does a slice that Kubernetes made of it",
		world: ledWorld,
		change: func(w *world) {
			takenFrom(w)
			owned(w.services["late"], w.imp, fullCRD)
			w.services["late"].DeletionTimestamp = &noon
			w.slices = append(w.slices, slice("late", "foo", discoveryv1.LabelServiceName, "late", discoveryv1.LabelManagedBy, "endpointslice-controller.k8s.io"))
			delete(w.services, "derived-foo")
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", len(w.imp.Spec.IPs), 0)
			equal(t, "ready", w.ready(), "False/Pending")
		},
	},
	{
		name:  "a Service with Karmada's label instead of the controller's is foreign",
		world: ledWorld,
		change: func(w *world) {
			w.services["derived-foo"] = others("derived-foo", "10.0.9.9")
			w.services["derived-foo"].Labels = map[string]string{mcs.LabelKarmadaManaged: "true"}
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", len(w.imp.Spec.IPs), 0)
			equal(t, "ready", w.ready(), "False/"+desired.ReasonForeignService)
		},
	},
	{
		name: "so is one of an import of ours, which is not Karmada's",
		world: func() *world {
			w := newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) {
				i.Labels = map[string]string{mcs.LabelManagedBy: mcs.ControllerName}
			}))
			w.services["derived-foo"] = others("derived-foo", "10.0.9.9")
			w.services["derived-foo"].Labels = map[string]string{mcs.LabelKarmadaManaged: "true"}
			return w
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", len(w.imp.Spec.IPs), 0)
			equal(t, "ready", w.ready(), "False/"+desired.ReasonForeignService)
		},
	},
	{
		name: "a user's VIP stays while a foreign Service has the name",
		world: func() *world {
			w := ledWorld()
			w.imp.Spec.IPs = []string{"1.2.3.4"}
			return w
		},
		change: func(w *world) { w.services["derived-foo"] = others("derived-foo", "10.0.9.9") },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"1.2.3.4"})
			equal(t, "labels", labels(w), []string{"a="})
		},
	},
	{
		name: "the annotation names a foreign Service: ours goes on serving under its former name (C24)",
		world: func() *world {
			w := ledWorld()
			w.services["theirs"] = others("theirs", "10.0.9.9")
			return w
		},
		change: func(w *world) { w.imp.Annotations[mcs.AnnotationDerivedService] = "theirs" },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "labels", labels(w), []string{"a=", "ours=derived-foo"})
			equal(t, "ready", w.ready(), "False/"+desired.ReasonForeignService)
		},
	},
	{
		name: "a Service that the annotation names is read, and follows when its address changes (R2, karmada#4515)",
		world: func() *world {
			w := newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) {
				i.Annotations = map[string]string{mcs.AnnotationDerivedService: "theirs"}
			}))
			w.services["theirs"] = others("theirs", "10.0.9.9")
			w.slices = []*discoveryv1.EndpointSlice{slice("a", "foo")}
			return w
		},
		change: func(w *world) { w.services["theirs"] = others("theirs", "10.0.9.8") },
		check: func(t *testing.T, w *world) {
			equal(t, "service", w.svc(), others("theirs", "10.0.9.8"))
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.9.8"})
			equal(t, "annotations", len(w.imp.Annotations), 1)
			equal(t, "labels", labels(w), []string{"a=", "ours=theirs"})
			equal(t, "ready", w.ready(), "True/Ready")
		},
	},
	{
		name: "a named Service that selects pods of this cluster gives its address and gets no imported endpoints (C41)",
		world: func() *world {
			w := newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) {
				i.Annotations = map[string]string{mcs.AnnotationDerivedService: "local"}
			}))
			w.services["local"] = others("local", "10.0.9.9")
			w.services["local"].Spec.Selector = map[string]string{"app": "local"}
			w.slices = []*discoveryv1.EndpointSlice{slice("new", "foo"), slice("led", "foo", discoveryv1.LabelServiceName, "local"),
				slice("elsewhere", "foo", discoveryv1.LabelServiceName, "elsewhere")}
			return w
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.9.9"})
			equal(t, "labels", labels(w), []string{"new=", "led=local", "elsewhere=elsewhere"})
			equal(t, "ready", w.ready(), "True/Ready")
			equal(t, "said", strings.Contains(w.message(), "left out: the imported endpoints"), true)
		},
	},
	{
		name: "a hand-over to a Service that selects pods takes the slices off ours (C41)",
		world: func() *world {
			w := newWorld(clusterSetImport("foo"))
			w.services["local"] = others("local", "10.0.9.9")
			w.services["local"].Spec.Selector = map[string]string{"app": "local"}
			w.slices = []*discoveryv1.EndpointSlice{slice("a", "foo")}
			return w
		},
		change: func(w *world) { w.imp.Annotations = map[string]string{mcs.AnnotationDerivedService: "local"} },
		check: func(t *testing.T, w *world) {
			equal(t, "labels", labels(w), []string{"a="})
			equal(t, "services", len(w.services), 1)
		},
	},
	{
		name: "two imports that name one derived Service: the second reports it",
		world: func() *world {
			w := newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) {
				i.Annotations = map[string]string{mcs.AnnotationDerivedService: "derived-bar"}
			}))
			bar := clusterSetImport("bar")
			bar.UID = "u2"
			svc := others("derived-bar", "10.0.9.9")
			owned(svc, bar, fullCRD)
			w.services["derived-bar"] = svc
			return w
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", len(w.imp.Spec.IPs), 0)
			equal(t, "ready", w.ready(), "False/"+desired.ReasonForeignService)
		},
	},
	{
		name:   "another name in the annotation: the Service moves there with its address",
		world:  func() *world { return newWorld(clusterSetImport("foo")) },
		change: func(w *world) { w.imp.Annotations[mcs.AnnotationDerivedService] = "foo-elsewhere" },
		check: func(t *testing.T, w *world) {
			equal(t, "services", len(w.services), 1)
			equal(t, "address", w.svc().Spec.ClusterIP, "10.0.0.1")
			equal(t, "name", w.svc().Name, "foo-elsewhere")
		},
	},
	{
		name:   "a name that no Service can have costs nothing that works",
		world:  ledWorld,
		change: func(w *world) { w.imp.Annotations[mcs.AnnotationDerivedService] = "Not_A_Name" },
		check: func(t *testing.T, w *world) {
			equal(t, "services", len(w.services), 1)
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "ready", w.ready(), "False/"+desired.ReasonInvalidName)
		},
	},
	{
		name:   "an import made again under its name takes the Service over with its address (lighthouse#693)",
		world:  func() *world { return newWorld(clusterSetImport("foo")) },
		change: func(w *world) { *w.imp = *newWorld(clusterSetImport("foo")).imp; w.imp.UID = "u2" },
		check: func(t *testing.T, w *world) {
			equal(t, "uid", w.svc().OwnerReferences[0].UID, types.UID("u2"))
			equal(t, "owners", len(w.svc().OwnerReferences), 1)
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
		},
	},
	{
		name:  "ports, affinity and policies follow the import (R7, mcs-api#169)",
		world: func() *world { return newWorld(clusterSetImport("foo")) },
		change: func(w *world) {
			w.svc().Annotations = map[string]string{"user": "note"}
			w.imp.Spec.Ports = []mcsv1beta1.ServicePort{{Name: "http", Port: 8080}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, AppProtocol: new("dns")}}
			w.imp.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			w.imp.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
			w.imp.Spec.TrafficDistribution = new("PreferClose")
		},
		check: func(t *testing.T, w *world) {
			spec := w.svc().Spec
			equal(t, "ports", spec.Ports, []corev1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 8080}, {Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, AppProtocol: new("dns")}})
			equal(t, "affinity", spec.SessionAffinity, corev1.ServiceAffinityClientIP)
			equal(t, "timeout", *spec.SessionAffinityConfig.ClientIP.TimeoutSeconds, 10800)
			equal(t, "policy", *spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyLocal)
			equal(t, "distribution", *spec.TrafficDistribution, "PreferClose")
			equal(t, "annotation of others", w.svc().Annotations, map[string]string{"user": "note"})
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
		},
	},
	{
		name:   "ports that all go leave the Service as it was, and not ready (C15, C24)",
		world:  func() *world { return newWorld(clusterSetImport("foo")) },
		change: func(w *world) { w.imp.Spec.Ports = nil },
		check: func(t *testing.T, w *world) {
			equal(t, "ports", len(w.svc().Spec.Ports), 1)
			equal(t, "ready", w.ready(), "False/"+desired.ReasonNoPorts)
		},
	},
	{
		name: "an import without ports has no Service, and the condition contains the reason (C15)",
		world: func() *world {
			return newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Spec.Ports = nil }))
		},
		check: func(t *testing.T, w *world) {
			equal(t, "services", len(w.services), 0)
			equal(t, "ready", w.ready(), "False/"+desired.ReasonNoPorts)
		},
	},
	{
		name: "a bad port beside a good one: the good one is served, one event names the bad one",
		world: func() *world {
			return newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) {
				i.Spec.Ports = append(i.Spec.Ports, mcsv1beta1.ServicePort{Name: "bad", Port: 70000})
			}))
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ports", len(w.svc().Spec.Ports), 1)
			equal(t, "ready", w.ready(), "True/Ready")
			equal(t, "named", strings.Contains(w.imp.Status.Conditions[0].Message, "70000"), true)
			equal(t, "events", len(w.events), 1)
		},
	},
	{
		name:  "two families on a dual-stack cluster",
		world: func() *world { return dualWorld(corev1.IPv6Protocol, corev1.IPv4Protocol) },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"fd00::1", "10.0.0.2"})
			equal(t, "ipFamilies", w.imp.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol})
		},
	},
	{
		name: "two families on a cluster that has only the second: that one, and the import reports it (C19)",
		world: func() *world {
			w := dualWorld(corev1.IPv6Protocol, corev1.IPv4Protocol)
			w.families = []corev1.IPFamily{corev1.IPv4Protocol}
			return w
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "ipFamilies", w.imp.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol})
			equal(t, "ready", w.ready(), "True/Ready")
			equal(t, "named", strings.Contains(w.message(), "left out: a second address family"), true)
		},
	},
	{
		name: "a family that the cluster lacks is reported (C27)",
		world: func() *world {
			return newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }))
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", len(w.imp.Spec.IPs), 0)
			equal(t, "ipFamilies", w.imp.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv6Protocol})
			equal(t, "ready", w.ready(), "False/IPFamilyNotSupported")
		},
	},
	{
		name: "a second family is added to the Service, the first address stays (C24)",
		world: func() *world {
			w := newWorld(clusterSetImport("foo"))
			w.families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
			return w
		},
		change: func(w *world) { w.imp.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol} },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1", "fd00::2"})
			equal(t, "ipFamilies", w.imp.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol})
		},
	},
	{
		name:   "the second family is taken away",
		world:  func() *world { return dualWorld(corev1.IPv4Protocol, corev1.IPv6Protocol) },
		change: func(w *world) { w.imp.Spec.IPFamilies = w.imp.Spec.IPFamilies[:1] },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "service", w.svc().Spec.ClusterIPs, []string{"10.0.0.1"})
		},
	},
	{
		name: "another first family would change the address: the Service stays, the condition contains what to do",
		world: func() *world {
			w := dualWorld(corev1.IPv4Protocol)
			return w
		},
		change: func(w *world) { w.imp.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "wish", w.imp.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv6Protocol})
			equal(t, "ready", w.ready(), "False/IPFamilyNotSupported")
		},
	},
	{
		name: "slices of others are copied for the derived Service and stay as they are; those of the cluster's own controllers are not copied (R8, C35)",
		world: func() *world {
			w := newWorld(clusterSetImport("foo"))
			w.slices = []*discoveryv1.EndpointSlice{
				slice("new", "foo"), slice("wrong", "foo", discoveryv1.LabelServiceName, "elsewhere"),
				slice("own", "foo", discoveryv1.LabelManagedBy, "endpointslice-controller.k8s.io", discoveryv1.LabelServiceName, "foo"),
				slice("mirror", "foo", discoveryv1.LabelManagedBy, "endpointslicemirroring-controller.k8s.io"),
				slice("going", "foo"),
			}
			w.slices[4].DeletionTimestamp = &noon
			return w
		},
		check: func(t *testing.T, w *world) {
			equal(t, "labels", labels(w), []string{"new=", "wrong=elsewhere", "own=foo", "mirror=", "going=", "ours=derived-foo", "ours=derived-foo"})
		},
	},
	{
		name: "an import of Karmada's gets ips from Karmada's Service, one on its old CRD, and nothing else (K8, K10)",
		world: func() *world {
			w := newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Labels = map[string]string{mcs.LabelKarmadaManaged: "true"} }))
			w.crd = karmadaCRD
			w.services["derived-foo"] = others("derived-foo", "10.0.9.9", "fd00::9")
			w.slices = []*discoveryv1.EndpointSlice{slice("a", "foo")}
			return w
		},
		check: func(t *testing.T, w *world) {
			want := newWorld(clusterSetImport("foo")).imp
			want.Labels, want.Spec.IPs, want.Generation = map[string]string{mcs.LabelKarmadaManaged: "true"}, []string{"10.0.9.9"}, 2
			equal(t, "import", w.imp, want)
			equal(t, "service", w.svc(), others("derived-foo", "10.0.9.9", "fd00::9"))
			equal(t, "slices", len(w.slices[0].Labels), 1)
			equal(t, "events", w.events, []desired.Event{{Type: "Normal", Reason: "Ready", Message: "spec.ips follows Service derived-foo: 10.0.9.9"}})
		},
	},
	{
		name: "a Service that Karmada keeps is followed, though the import is not Karmada's (K1)",
		world: func() *world {
			w := newWorld(clusterSetImport("foo"))
			w.services["derived-foo"] = others("derived-foo", "10.0.9.9")
			w.services["derived-foo"].Labels = map[string]string{mcs.LabelKarmadaManaged: "true"}
			return w
		},
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.9.9"})
			equal(t, "ready", w.ready(), "True/Ready")
		},
	},
	{
		name: "an import of Karmada's waits for its Service",
		world: func() *world {
			return newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Annotations = map[string]string{mcs.AnnotationKarmadaWork: "w"} }))
		},
		check: func(t *testing.T, w *world) {
			equal(t, "services", len(w.services), 0)
			equal(t, "conditions", len(w.imp.Status.Conditions), 0)
			equal(t, "events", w.events, []desired.Event{{Type: "Normal", Reason: "Pending", Message: "Karmada has not propagated Service derived-foo"}})
		},
	},
	{
		name: "an import of Karmada's that turns headless loses its ips (C25; K3 ignores the flip)",
		world: func() *world {
			w := newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Labels = map[string]string{mcs.LabelKarmadaManaged: "true"} }))
			w.services["derived-foo"] = others("derived-foo", "10.0.9.9")
			return w
		},
		change: func(w *world) { w.imp.Spec.Type = mcsv1beta1.Headless },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", len(w.imp.Spec.IPs), 0)
			equal(t, "services", len(w.services), 1)
			equal(t, "annotations", len(w.imp.Annotations), 0)
		},
	},
	{
		name: "a headless import of Karmada's gets copies of Karmada's slices, with the labels that DNS servers look for (K14)",
		world: func() *world {
			w := newWorld(clusterSetImport("db", func(i *mcsv1beta1.ServiceImport) {
				i.Labels, i.Spec.Type = map[string]string{mcs.LabelKarmadaManaged: "true"}, mcsv1beta1.Headless
			}))
			w.karmadas = []*discoveryv1.EndpointSlice{
				karmadas("imported-member1-db-x7k2p", "10.101.0.7"), karmadas("imported-eu-db-1-db-x7k2p", "10.101.0.8"), karmadas("other", "10.101.0.9"),
				karmadas("imported-member1-db-going", "10.101.0.10"), karmadas("imported-member1-db-label", "10.101.0.11"), karmadas("imported-member1-db-hand", "10.101.0.12"),
			}
			w.karmadas[3].DeletionTimestamp = &noon
			w.karmadas[4].Labels[mcsv1beta1.LabelServiceName] = "db" // by an OverridePolicy
			delete(w.karmadas[5].Labels, discoveryv1.LabelManagedBy)
			return w
		},
		check: func(t *testing.T, w *world) {
			var got []string
			for _, s := range w.slices {
				got = append(got, fmt.Sprint(s.Labels[mcsv1beta1.LabelServiceName], " ", s.Labels[mcsv1beta1.LabelSourceCluster], " ", s.Labels[discoveryv1.LabelServiceName], " ", s.Endpoints[0].Addresses[0]))
			}
			slices.Sort(got)
			equal(t, "copies", got, []string{"db   10.101.0.9", "db eu-db-1  10.101.0.8", "db member1  10.101.0.7"})
			equal(t, "Karmada's", len(w.karmadas[0].Labels), 2)
			equal(t, "events", len(w.events), 0)
		},
	},
	{
		name: "copies of Karmada's slices go with them, and when the import is no longer headless (K14)",
		world: func() *world {
			w := newWorld(clusterSetImport("db", func(i *mcsv1beta1.ServiceImport) {
				i.Labels, i.Spec.Type = map[string]string{mcs.LabelKarmadaManaged: "true"}, mcsv1beta1.Headless
			}))
			w.karmadas = []*discoveryv1.EndpointSlice{karmadas("imported-member1-db-x7k2p", "10.101.0.7"), karmadas("imported-member1-db-q9z4m", "10.101.0.8")}
			return w
		},
		change: func(w *world) {
			if w.karmadas = w.karmadas[:1]; len(w.slices) == 2 {
				w.settleQuietly()
			}
			if len(w.slices) == 1 {
				w.imp.Spec.Type = mcsv1beta1.ClusterSetIP
			}
		},
		check: func(t *testing.T, w *world) { equal(t, "copies", len(w.slices), 0) },
	},
	{
		name: "on a CRD without conditions one event tells, not one each time",
		world: func() *world {
			w := newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Spec.Ports = nil }))
			w.crd = karmadaCRD
			return w
		},
		check: func(t *testing.T, w *world) {
			equal(t, "events", len(w.events), 1)
			equal(t, "conditions", len(w.imp.Status.Conditions), 0)
		},
	},
	{
		name:  "an import whose name has a dot is served by address, and told that no DNS name can ask for it",
		world: func() *world { return newWorld(clusterSetImport("my.foo")) },
		check: func(t *testing.T, w *world) {
			equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.0.1"})
			equal(t, "ready", w.ready(), "True/Ready")
			equal(t, "said", strings.Contains(w.message(), "left out: the DNS name"), true)
		},
	},
	{
		name: "an import that is being deleted is left alone",
		world: func() *world {
			return newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.DeletionTimestamp = &noon }))
		},
		check: func(t *testing.T, w *world) { equal(t, "services", len(w.services), 0) },
	},
	{
		name: "drift is undone: the selector, the type, the label's owner stay ours",
		world: func() *world {
			return newWorld(clusterSetImport("foo"))
		},
		change: func(w *world) { w.svc().Spec.Selector = map[string]string{"app": "foo"} },
		check:  func(t *testing.T, w *world) { equal(t, "selector", len(w.svc().Spec.Selector), 0) },
	},
}

// ledWorld returns a world that is complete, with a slice that belongs to the derived Service.
func ledWorld() *world {
	w := newWorld(clusterSetImport("foo"))
	w.slices = []*discoveryv1.EndpointSlice{slice("a", "foo")}
	w.settleQuietly()
	return w
}

func settled(w *world) *world {
	w.settleQuietly()
	return w
}

// takenFrom gives the address of the derived Service to another Service, which was faster.
func takenFrom(w *world) {
	w.services["late"], w.taken["10.0.0.1"] = others("late", "10.0.0.1"), true
}

// noIPs checks that the plan empties ips.
func noIPs(t *testing.T, c diff.Changes) {
	t.Helper()
	if c.Import == nil || len(c.Import.New.Spec.IPs) > 0 {
		t.Errorf("import is planned as %+v; want no ips", c.Import)
	}
}

// wasExternalName is the state of an import whose Service has no address any more, because a user
// has edited it.
func wasExternalName(st *observed.State) {
	st.Import.Spec.IPs, st.Import.Annotations = []string{"10.0.0.1"}, map[string]string{mcs.AnnotationClusterIPs: "10.0.0.1"}
	st.Service = others("derived-foo", "")
	owned(st.Service, st.Import, fullCRD)
	st.Service.Spec.Type, st.Service.Spec.ClusterIPs = corev1.ServiceTypeExternalName, nil
}

func dualWorld(families ...corev1.IPFamily) *world {
	w := newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Spec.IPFamilies = families }))
	w.families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	return w
}

func others(name string, ips ...string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.ServiceSpec{ClusterIP: ips[0], ClusterIPs: ips, IPFamilies: familiesOfIPs(ips), Ports: []corev1.ServicePort{{Port: 9}}}}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (w *world) settleQuietly() {
	for c := w.plan(); !c.Empty(); c = w.plan() {
		w.apply(c, 100)
		w.last = c.Ready
	}
}

func TestImport(t *testing.T) {
	for _, test := range scenarios {
		t.Run(test.name, func(t *testing.T) {
			w := test.world()
			w.settle(t)
			if test.change != nil {
				test.change(w)
				w.settle(t)
			}
			test.check(t, w)
		})
	}
}

// A process that stops after any single write, and a process that starts again: both end in the
// same state.
func TestCrashAfterEachWriteEndsInTheSameState(t *testing.T) {
	for _, test := range scenarios {
		t.Run(test.name, func(t *testing.T) {
			start := test.world()
			start.settle(t)
			if test.change == nil {
				start = test.world()
			} else {
				test.change(start)
			}
			whole := start.clone()
			whole.settle(t)
			// A plan is stopped after each of its writes. The rest of the history follows from new
			// plans.
			for at := start.clone(); ; {
				c := at.plan()
				n := c.Writes()
				for cut := range n {
					half := at.clone()
					half.apply(half.plan(), cut)
					half.settle(t)
					if diff := cmp.Diff(whole.imp, half.imp, ignoreGeneration); diff != "" {
						t.Errorf("import after a crash at write %d of %d (-whole +crashed):\n%s", cut, n, diff)
					}
					if diff := cmp.Diff(whole.services, half.services); diff != "" {
						t.Errorf("services after a crash at write %d of %d (-whole +crashed):\n%s", cut, n, diff)
					}
					if diff := cmp.Diff(whole.slices, half.slices); diff != "" {
						t.Errorf("slices after a crash at write %d of %d (-whole +crashed):\n%s", cut, n, diff)
					}
				}
				if c.Empty() {
					break
				}
				at.apply(c, 100)
				at.last = c.Ready
			}
		})
	}
}

var ignoreGeneration = cmp.FilterPath(func(p cmp.Path) bool {
	last := p.Last().String()
	return last == ".Generation" || last == ".ObservedGeneration"
}, cmp.Ignore())

// The same state gives the same changes, in whatever order the caches list it.
func TestOrderOfTheStateDoesNotMatter(t *testing.T) {
	w := newWorld(clusterSetImport("foo"))
	w.settle(t)
	w.slices = []*discoveryv1.EndpointSlice{slice("c", "foo"), slice("a", "foo"), slice("b", "foo")}
	for _, name := range []string{"left-1", "left-2"} {
		svc := others(name, "10.0.8.8")
		owned(svc, w.imp, fullCRD)
		w.services[name] = svc
	}
	st := w.state()
	first := Plan(st)
	for range 10 {
		slices.Reverse(st.Slices)
		st.Owned = w.state().Owned // map order
		if diff := cmp.Diff(first, Plan(st)); diff != "" {
			t.Fatalf("(-first +again):\n%s", diff)
		}
	}
}

// What the API server refuses is left out if a Service can exist without it.
func TestRefusals(t *testing.T) {
	imp := func() *world {
		return newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) {
			i.Spec.TrafficDistribution = new("Nearby")
			i.Spec.Ports = append(i.Spec.Ports, mcsv1beta1.ServicePort{Name: "b", Port: 81}, mcsv1beta1.ServicePort{Name: "c", Port: 82})
		}))
	}
	for _, test := range []struct {
		name    string
		refused []observed.Refusal
		edit    func(*observed.State)
		check   func(*testing.T, diff.Changes)
	}{
		{
			name:    "a trafficDistribution that this server does not know",
			refused: []observed.Refusal{{Field: "spec.trafficDistribution", Message: "unsupported"}},
			check: func(t *testing.T, c diff.Changes) {
				equal(t, "left out", c.Create.Spec.TrafficDistribution == nil, true)
			},
		},
		{
			name:    "two ports, one after the other: indices count in what was sent",
			refused: []observed.Refusal{{Field: "spec.ports[1].name"}, {Field: "spec.ports[1].port"}},
			check: func(t *testing.T, c diff.Changes) {
				equal(t, "ports", c.Create.Spec.Ports, []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}})
			},
		},
		{
			name:    "a quota has no way out: told, and tried again later",
			refused: []observed.Refusal{{Message: "exceeded quota"}},
			check: func(t *testing.T, c diff.Changes) {
				equal(t, "created", c.Create == nil, true)
				equal(t, "retry", c.Retry, true)
				equal(t, "reason", c.Ready.Reason, desired.ReasonRefused)
			},
		},
		{
			name:    "recorded addresses that are refused are asked for again first",
			refused: []observed.Refusal{{Field: "spec.clusterIPs", Message: "provided IP is already allocated"}},
			edit: func(st *observed.State) {
				st.KeepTrying = true
				st.Import.Annotations = map[string]string{mcs.AnnotationClusterIPs: "10.0.0.1"}
			},
			check: func(t *testing.T, c diff.Changes) { equal(t, "changes", c, diff.Changes{RetryAddress: true}) },
		},
		{
			name:    "patience ends: without the recorded addresses",
			refused: []observed.Refusal{{Field: "spec.clusterIPs", Message: "provided IP is already allocated"}},
			edit: func(st *observed.State) {
				st.Import.Annotations = map[string]string{mcs.AnnotationClusterIPs: "10.0.0.1"}
			},
			check: func(t *testing.T, c diff.Changes) { equal(t, "addresses", len(c.Create.Spec.ClusterIPs), 0) },
		},
		{
			name: "recorded addresses that somebody's Service has by now are not waited for",
			edit: func(st *observed.State) {
				st.KeepTrying = true
				st.Import.Annotations = map[string]string{mcs.AnnotationClusterIPs: "10.0.0.1"}
				st.AddressHolders = []*corev1.Service{others("late", "10.0.0.1")}
			},
			check: func(t *testing.T, c diff.Changes) { equal(t, "addresses", len(c.Create.Spec.ClusterIPs), 0) },
		},
		{
			name: "nor do they stay in ips, whatever keeps the Service from being made",
			edit: func(st *observed.State) {
				st.Import.Spec.IPs, st.Import.Spec.Ports = []string{"10.0.0.1"}, nil
				st.Import.Annotations = map[string]string{mcs.AnnotationClusterIPs: "10.0.0.1"}
				st.AddressHolders = []*corev1.Service{others("late", "10.0.0.1")}
			},
			check: noIPs,
		},
		{
			name:    "a Service that was of type ExternalName and gets no address of ours again: none in ips until it has another",
			refused: []observed.Refusal{{Field: "spec.clusterIPs[0]", Message: "provided IP is already allocated"}},
			edit:    wasExternalName,
			check: func(t *testing.T, c diff.Changes) {
				equal(t, "asked for", len(c.Service.New.Spec.ClusterIPs), 0)
				noIPs(t, c)
			},
		},
		{
			name:    "a Service that was of type ExternalName and cannot be changed: none in ips",
			refused: []observed.Refusal{{Message: "denied"}},
			edit:    wasExternalName,
			check:   noIPs,
		},
		{
			name: "a Service that was of type ExternalName asks for its address again, which stays in ips meanwhile",
			edit: wasExternalName,
			check: func(t *testing.T, c diff.Changes) {
				equal(t, "asked for", c.Service.New.Spec.ClusterIPs, []string{"10.0.0.1"})
				equal(t, "import", c.Import == nil, true)
			},
		},
		{
			name:    "an address range that is full is not a missing family",
			refused: []observed.Refusal{{Field: "spec.clusterIPs", Message: "range is full"}},
			check:   func(t *testing.T, c diff.Changes) { equal(t, "reason", c.Ready.Reason, desired.ReasonRefused) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := imp().state()
			st.Refused = test.refused
			if test.edit != nil {
				test.edit(&st)
			}
			test.check(t, Plan(st))
		})
	}
}

// The derived Service under a former name continues to serve while the annotation names a foreign
// Service, also while the import's slices change (C24). A Service that no slice of the controller
// belongs to does not.
func TestFormerServiceServesOn(t *testing.T) {
	c := newName("c1", exporting("c1", 0, 80, "10.9.1.1"))
	c.settle(t)
	c.services["theirs"], c.imp.Annotations[mcs.AnnotationDerivedService] = others("theirs", "10.0.9.9"), "theirs"
	c.Members[0].Slices[0].Endpoints[0].Addresses = []string{"10.9.1.2"}
	c.settle(t)
	equal(t, "ips", c.imp.Spec.IPs, []string{"10.0.0.1"})
	equal(t, "slice", c.slices[0].Labels[discoveryv1.LabelServiceName], "derived-foo")
	c.slices = append(c.slices, theirs("spy", discoveryv1.LabelServiceName, "derived-foo"))
	delete(c.slices[0].Labels, discoveryv1.LabelServiceName)
	c.settle(t)
	equal(t, "ips", len(c.imp.Spec.IPs), 0)
}

// AddressHolders contain the Services with an address that the import had last, and their changes
// are received, also while ips are empty.
func TestAddressesThatAnImportHadLast(t *testing.T) {
	imp := clusterSetImport("foo", withIPs("1.2.3.4", "10.0.0.1"))
	imp.Annotations = map[string]string{mcs.AnnotationClusterIPs: "10.0.0.1,fd00::1"}
	equal(t, "addresses", fmt.Sprint(desired.ImportAddresses(imp)), "[1.2.3.4 10.0.0.1 fd00::1]")
	imp.Spec.IPs = nil
	equal(t, "addresses without ips", fmt.Sprint(desired.ImportAddresses(imp)), "[10.0.0.1 fd00::1]")
}

// A condition's time changes only with its status, and its generation with the import.
func TestTransitionTime(t *testing.T) {
	w := newWorld(clusterSetImport("foo"))
	w.settle(t)
	later := metav1.NewTime(noon.Add(time.Hour))
	st := w.state()
	st.Now = later
	w.imp.Generation++
	equal(t, "ready again", Plan(st).ImportStatus.New.Status.Conditions[0].LastTransitionTime, noon)
	equal(t, "events", len(Plan(st).Events), 0)
	w.imp.Status.Conditions[0].LastTransitionTime = metav1.Time{}
	equal(t, "no time yet", Plan(st).ImportStatus.New.Status.Conditions[0].LastTransitionTime, later)
	w.imp.Spec.Ports = nil
	equal(t, "not ready", Plan(st).ImportStatus.New.Status.Conditions[0].LastTransitionTime, later)
}

// owned marks a Service as the controller's.
func owned(svc *corev1.Service, imp *mcsv1beta1.ServiceImport, crd observed.CRD) {
	if svc.Labels == nil {
		svc.Labels = map[string]string{}
	}
	svc.Labels[mcs.LabelManagedBy] = mcs.ControllerName
	svc.OwnerReferences = ownership.WithOwner(svc.OwnerReferences, imp, crd.APIVersion)
}

// familiesOfIPs returns the families of a Service's addresses, in their order.
func familiesOfIPs(ips []string) (families []corev1.IPFamily) {
	for _, ip := range ips {
		if strings.Contains(ip, ":") {
			families = append(families, corev1.IPv6Protocol)
		} else if ip != "" {
			families = append(families, corev1.IPv4Protocol)
		}
	}
	return families
}
