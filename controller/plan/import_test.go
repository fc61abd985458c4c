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
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

var (
	fullCRD = observed.CRD{APIVersion: "multicluster.x-k8s.io/v1beta1", MaxIPs: 2, IPFamilies: true, Conditions: true}
	noon    = metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
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
		name := c.Create.Name
		st.Refused = refusedService(name, append(st.Refused.Service(name), refusal)...)
	}
}

func refusedService(name string, all ...observed.Refusal) observed.Refused {
	return observed.Refused{{Kind: observed.Service, Name: name}: all}
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
	for _, one := range c.KeepSlices {
		add(true, func() { w.slices[slices.Index(w.slices, one.Slice)] = one.Kept(one.Slice) })
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
			check: func(t *testing.T, c diff.Changes) { equal(t, "changes", c, diff.Changes{}) },
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
			st.Refused = refusedService(ownership.DerivedName(st.Import), test.refused...)
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
