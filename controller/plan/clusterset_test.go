package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// oneName is the state of one name in a clusterset, with a minimal simulation of an API server:
// what is planned exists afterwards.
type oneName struct {
	world
	observed.Clusterset
	imported bool // the import exists
	choice   preference.Memory
	later    time.Duration // the time after noon
	plans    int
	copies   digest.Copies // what the last plan left
}

func newName(home string, members ...merge.Member) *oneName {
	crd := fullCRD
	crd.EndpointSliceObjects, crd.Policies = true, true
	return &oneName{
		world:      world{crd: crd, services: map[string]*corev1.Service{}, families: []corev1.IPFamily{corev1.IPv4Protocol}, taken: map[string]bool{}},
		Clusterset: observed.Clusterset{Home: home, Members: members, Namespace: true, MaxEndpoints: 100, Export: &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "foo", Namespace: "default"}}},
	}
}

// exporting returns a member that exports foo on the given port, from the given second after noon.
func exporting(cluster string, second int, port int32, addresses ...string) merge.Member {
	m := merge.Member{
		Cluster: cluster,
		Export:  &merge.Export{Created: metav1.NewTime(noon.Add(time.Duration(second) * time.Second))},
		Service: &merge.ServiceSpec{Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: port}},
			Affinity: corev1.ServiceAffinityNone, InternalPolicy: corev1.ServiceInternalTrafficPolicyCluster, Families: []corev1.IPFamily{corev1.IPv4Protocol}},
	}
	for _, address := range addresses {
		m.Slices = append(m.Slices, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "foo-" + strings.ReplaceAll(address, ".", "-"), Labels: map[string]string{discoveryv1.LabelServiceName: "foo"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
			Ports: []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(port + 1)}},
		})
	}
	return m
}

// publishing gives the slices of a member the labels that its controller gives them.
func publishing(m merge.Member) merge.Member {
	for _, slice := range m.Slices {
		slice.Labels[mcsv1beta1.LabelServiceName] = "foo"
	}
	return m
}

func (c *oneName) state() observed.State {
	st := c.stateAtNoon()
	st.Preference, st.Now = c.choice, metav1.NewTime(noon.Add(c.later))
	return st
}

func (c *oneName) stateAtNoon() observed.State {
	if !c.imported {
		c.imp = nil
		return observed.State{Namespace: "default", Name: "foo", Clusterset: &c.Clusterset, CRD: c.crd, Now: noon, Slices: c.slices}
	}
	st := c.world.state()
	st.Namespace, st.Name, st.Clusterset = "default", "foo", &c.Clusterset
	return st
}

// settle plans and writes until nothing is missing.
func (c *oneName) settle(t *testing.T) {
	t.Helper()
	for range 20 {
		changes := c.planBoth(t)
		c.plans++
		c.choice = changes.Preference
		c.last = changes.Ready
		if changes.Empty() {
			return
		}
		c.write(changes)
	}
	t.Fatal("it plans forever")
}

// planBoth plans with what the last plan left, and compares the result with that of a plan without it.
func (c *oneName) planBoth(t *testing.T) diff.Changes {
	t.Helper()
	fresh, changes := Plan(c.state()), c.planAgain()
	changes.Copies, fresh.Copies = nil, nil
	if !reflect.DeepEqual(changes, fresh) {
		t.Errorf("with the digests of the last plan, the changes are %+v; without them %+v", changes, fresh)
	}
	return changes
}

func (c *oneName) write(changes diff.Changes) {
	if changes.CreateImport != nil {
		c.imp, c.imported = changes.CreateImport, true
		c.imp.UID, c.imp.Generation = "u1", 1
	}
	if c.imported || len(changes.DeleteSlices) > 0 {
		c.apply(changes, 1000)
	}
	if changes.DeleteImport != nil {
		c.imported, c.services = false, map[string]*corev1.Service{}
	}
	if changes.ExportStatus != nil {
		c.Export = changes.ExportStatus.New
	}
}

// shows checks that the import exists, comes from these clusters, has this port, and has slices
// with these endpoints.
func (c *oneName) shows(t *testing.T, from string, port int32, addresses ...string) {
	t.Helper()
	if !c.imported {
		t.Fatal("there is no import")
	}
	var names []string
	for _, s := range c.imp.Status.Clusters {
		names = append(names, s.Cluster)
	}
	equal(t, "clusters", strings.Join(names, ","), from)
	equal(t, "port", c.imp.Spec.Ports[0].Port, port)
	var got []string
	for _, s := range c.slices {
		got = append(got, s.Endpoints[0].Addresses...)
	}
	slices.Sort(got)
	equal(t, "endpoints", strings.Join(got, ","), strings.Join(addresses, ","))
}

// mirrored returns a member with the slices that its own controller would have made.
func mirrored(m merge.Member) merge.Member {
	m.Slices = desired.ImportedSlices(m.Cluster, types.NamespacedName{Namespace: "default", Name: "foo"}, merge.Merge([]merge.Member{m}), []merge.Member{m}, 100)
	return m
}

func TestAbsentIsNotEmpty(t *testing.T) {
	old := mirrored(exporting("c2", 0, 8080, "10.2.0.1"))
	third := mirrored(exporting("c3", 2, 80, "10.3.0.1"))
	c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"), old, third)
	c.settle(t)
	c.shows(t, "c1,c2,c3", 8080, "10.1.0.1", "10.2.0.1", "10.3.0.1")
	conflict := meta.FindStatusCondition(c.Export.Status.Conditions, "Conflict")

	// The process restarts while c2 and c3 are away. c3 answers first, and has another endpoint
	// now.
	third = mirrored(exporting("c3", 2, 80, "10.3.0.2"))
	c.Members, c.Silent = []merge.Member{exporting("c1", 1, 80, "10.1.0.1"), third}, []string{"c2"}
	c.settle(t)
	c.shows(t, "c1,c2,c3", 8080, "10.1.0.1", "10.2.0.1", "10.3.0.2")
	if now := meta.FindStatusCondition(c.Export.Status.Conditions, "Conflict"); *now != *conflict {
		t.Errorf("the conflict was %+v and is %+v", conflict, now)
	}
	// Only c2 remains, which has not answered yet.
	c.Members, c.Export = []merge.Member{{Cluster: "c1"}, {Cluster: "c3"}}, nil
	c.settle(t)
	c.shows(t, "c2", 8080, "10.2.0.1")
	// The same holds if a user emptied the status in the meantime: the slices identify their
	// cluster.
	c.imp.Status.Clusters = nil
	c.settle(t)
	c.shows(t, "c2", 8080, "10.2.0.1")
	// A peer that the import has nothing of does not matter.
	c.Members, c.Silent = []merge.Member{third}, []string{"c9"}
	c.settle(t)
	c.shows(t, "c3", 80, "10.3.0.2")
	// c3's time runs out, before or after it answers: its endpoints go, and the import stays, with
	// its address (C22, C24, C39).
	ips := c.imp.Spec.IPs
	c.Members, c.Silent, c.SilentExpired = nil, nil, []string{"c3"}
	c.settle(t)
	c.shows(t, "c3", 80)
	third.Slices = nil
	c.Members, c.SilentExpired = []merge.Member{third}, nil
	c.settle(t)
	c.shows(t, "c3", 80)
	equal(t, "ips", c.imp.Spec.IPs, ips)
	// c3 leaves.
	c.Members = nil
	c.settle(t)
	if c.imported || len(c.slices) > 0 {
		t.Errorf("the import is there: %v, with %d slices", c.imported, len(c.slices))
	}
}

// The kept slices of a cluster that has not answered are those that ImportedSlices made. A slice
// that a user has marked in the same way is not kept, and does not keep an import.
func TestForgedSlicesOfSilentClusters(t *testing.T) {
	c := newName("c1", exporting("c1", 0, 80, "10.1.0.1"), mirrored(exporting("c2", 1, 80, "10.2.0.1")))
	c.settle(t)
	forge := func(cluster, name string, owned bool) {
		slice := theirs(name, mcsv1beta1.LabelSourceCluster, cluster, discoveryv1.LabelManagedBy, mcs.ControllerName)
		if owned {
			slice.OwnerReferences = c.slices[0].OwnerReferences
		}
		c.slices = append(c.slices, slice)
	}
	c.Members, c.Silent = []merge.Member{exporting("c1", 0, 80, "10.1.0.1")}, []string{"c2", "c3"}
	forge("c2", "spy", true)
	forge("c2", "foo.c2.ipv4-spy", true)
	forge("c2", "foo.c2.ipv4-0123456789", false)
	forge("c2", "foo.c9.ipv4-0123456789", true)
	forge("c3", "foo.c3.ipv4-9876543210", false)
	equal(t, "waited for", buildOf(c.state()).Status.Clusters, []string{"c1", "c2"})
	c.settle(t)
	c.shows(t, "c1,c2", 80, "10.1.0.1", "10.2.0.1")
	// Only the name and the owner identify a slice. Once the cluster answers, its own slices are
	// known.
	forge("c2", "foo.c2.ipv4-0123456789", true)
	c.slices[len(c.slices)-1].Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}}
	c.settle(t)
	c.shows(t, "c1,c2", 80, "10.1.0.1", "10.2.0.1", "10.9.9.9")
	c.Members, c.Silent = []merge.Member{exporting("c1", 0, 80, "10.1.0.1"), mirrored(exporting("c2", 1, 80, "10.2.0.1"))}, nil
	c.settle(t)
	c.shows(t, "c1,c2", 80, "10.1.0.1", "10.2.0.1")
}

// A slice of a cluster that has not answered stays, whatever a user does to its labels, and the
// controller's labels are restored: otherwise its endpoints would be missing until the cluster
// answers. The same holds if the content of the slice is not known, as in a cache.
func TestSlicesOfSilentClustersKeepTheirMark(t *testing.T) {
	for what, edit := range map[string]func(labels map[string]string){
		"no mark":         func(labels map[string]string) { delete(labels, discoveryv1.LabelManagedBy) },
		"another's mark":  func(labels map[string]string) { labels[discoveryv1.LabelManagedBy] = desired.SliceMirroring },
		"no cluster":      func(labels map[string]string) { delete(labels, mcsv1beta1.LabelSourceCluster) },
		"another cluster": func(labels map[string]string) { labels[mcsv1beta1.LabelSourceCluster] = "c1" },
		"no kube-proxy":   func(labels map[string]string) { labels[mcs.ProxyLabels[0]] = "his" },
		"none of these, and led elsewhere": func(labels map[string]string) {
			clear(labels)
			labels[mcsv1beta1.LabelServiceName], labels[discoveryv1.LabelServiceName] = "foo", "elsewhere"
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := newName("c1", exporting("c1", 0, 80, "10.1.0.1"), mirrored(exporting("c2", 1, 80, "10.2.0.1")))
			c.settle(t)
			at := slices.IndexFunc(c.slices, func(s *discoveryv1.EndpointSlice) bool { return s.Labels[mcsv1beta1.LabelSourceCluster] == "c2" })
			digest.Keep(c.slices[at])
			want := c.slices[at].DeepCopy()
			c.Members, c.Silent = []merge.Member{exporting("c1", 0, 80, "10.1.0.1")}, []string{"c2"}
			// Only the slice shows that the plan must wait for c2.
			c.imp.Status.Clusters = nil
			edit(c.slices[at].Labels)
			moved := ownership.Misassociated(c.slices[at], "derived-foo")
			for range 20 {
				changes := Plan(c.state())
				if len(changes.UpdateSlices) > 0 {
					t.Fatalf("what is not known is written whole: %+v", changes.UpdateSlices)
				}
				c.write(changes)
			}
			if at = slices.IndexFunc(c.slices, func(s *discoveryv1.EndpointSlice) bool { return ownership.SliceIsFrom("c2", s, c.imp) }); at < 0 {
				t.Fatal("it is gone")
			}
			// The label of a slice never changes, so the slice has another name now.
			if moved {
				want.Name = c.slices[at].Name
			}
			equal(t, "its slice", c.slices[at], want)
		})
	}
}

// A slice of the controller that is being deleted and has a finalizer is deleted, even if it is
// wanted: it is then created again. A slice without a finalizer needs no further deletion.
func TestSlicesWithFinalizersAreDeleted(t *testing.T) {
	c := newName("c1", exporting("c1", 0, 80, "10.1.0.1"))
	c.settle(t)
	slice := c.slices[0]
	slice.DeletionTimestamp = &noon
	if changes := Plan(c.state()); !changes.Empty() {
		t.Errorf("a slice that is being deleted: %+v", changes)
	}
	slice.Finalizers = []string{"example.org/held"}
	changes := Plan(c.state())
	if len(changes.DeleteSlices) != 1 || changes.DeleteSlices[0] != slice {
		t.Errorf("a slice that is held: %+v", changes)
	}
	c.settle(t)
	c.shows(t, "c1", 80, "10.1.0.1")
}

// A slice that belongs to the derived Service and not to the import is deleted. A slice of a
// Service that the controller does not own stays.
func TestUnexpectedSlicesAreDeleted(t *testing.T) {
	c := newName("c1", exporting("c1", 0, 80, "10.1.0.1"))
	c.settle(t)
	svc := c.services["derived-foo"]
	led := func(name string, more ...string) *discoveryv1.EndpointSlice {
		return theirs(name, append([]string{discoveryv1.LabelServiceName, "derived-foo"}, more...)...)
	}
	kubernetes := led("kubernetes", discoveryv1.LabelManagedBy, "endpointslice-controller.k8s.io")
	kubernetes.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "derived-foo", UID: svc.UID}}
	former := led("former", mcsv1beta1.LabelServiceName, "")
	former.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "derived-foo", UID: "another"}}
	another := led("of-another-service", mcsv1beta1.LabelServiceName, "")
	another.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "his", UID: "his"}}
	for _, test := range []struct {
		slice *discoveryv1.EndpointSlice
		want  bool
	}{
		{kubernetes, true},
		{led("mirrored", discoveryv1.LabelManagedBy, desired.SliceMirroring), true},
		{led("bare", mcsv1beta1.LabelServiceName, ""), true},
		{led("of-another-name", mcsv1beta1.LabelServiceName, "bar", discoveryv1.LabelManagedBy, mcs.ControllerName), true},
		{led("without-a-mark"), true},
		{former, true},
		{another, true},
		{theirs("elsewhere", discoveryv1.LabelServiceName, "derived-bar", mcsv1beta1.LabelServiceName, "bar"), false},
		{c.slices[0], false},
	} {
		if got := ownership.Unexpected(test.slice, c.imp, svc); got != test.want {
			t.Errorf("%s has to go: %v, want %v", test.slice.Name, got, test.want)
		}
	}
	st := c.state()
	st.UnexpectedSlices = []*discoveryv1.EndpointSlice{kubernetes}
	c.imp.Status.Clusters, c.Export.Status.Conditions = nil, nil
	if changes := Plan(st); len(changes.Evict) != 1 || changes.ImportStatus == nil {
		t.Errorf("planned: %+v", changes)
	} else {
		c.write(changes)
	}
	st = c.state()
	st.UnexpectedSlices = []*discoveryv1.EndpointSlice{kubernetes}
	if changes := Plan(st); len(changes.Evict) != 1 || changes.ExportStatus == nil || changes.Ready.Type == "" || changes.Empty() {
		t.Errorf("planned while it stays: %+v", changes)
	}
	svc.Labels, svc.OwnerReferences = nil, nil // no longer the controller's
	if ownership.Unexpected(kubernetes, c.imp, svc) {
		t.Error("a slice of a Service that is not ours has to go")
	}
	svc.Labels = map[string]string{mcs.LabelManagedBy: mcs.ControllerName}
	handOver(c.imp)
	if ownership.Unexpected(kubernetes, c.imp, svc) {
		t.Error("a slice has to go for an import of others")
	}
}

// handOver gives an import of the controller to a user.
func handOver(imp *mcsv1beta1.ServiceImport) {
	delete(imp.Labels, mcs.LabelManagedBy)
	delete(imp.Annotations, mcs.AnnotationExports)
}

func TestNoNamespaceNoImport(t *testing.T) {
	c := newName("c1", mirrored(exporting("c2", 0, 80, "10.2.0.1")))
	c.Namespace, c.Export = false, nil
	c.settle(t)
	if c.imported {
		t.Error("C20: imported into a namespace that is not there")
	}
}

// A namespace that is being deleted accepts no new objects, including events: only the condition of
// the export reports it.
func TestNoEventsInANamespaceThatEnds(t *testing.T) {
	c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"))
	c.settle(t)
	c.Namespace = false
	changes := Plan(c.state())
	if changes.ExportStatus == nil || meta.IsStatusConditionTrue(changes.ExportStatus.New.Status.Conditions, "Ready") || len(changes.ExportEvents) > 0 {
		t.Errorf("planned %+v, and the events %v", changes.ExportStatus, changes.ExportEvents)
	}
}

// A restart writes nothing: a complete state gives an empty plan, also with slices without their
// endpoints.
func TestUnchangedStatePlansNothing(t *testing.T) {
	c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"), mirrored(exporting("c2", 0, 8080, "10.2.0.1")))
	c.settle(t)
	for _, slice := range c.slices {
		digest.Keep(slice)
	}
	if changes := Plan(c.state()); !changes.Empty() {
		t.Errorf("it plans %+v", changes)
	}
	c.Members[0] = exporting("c1", 1, 80, "10.1.0.9")
	if changes := Plan(c.state()); len(changes.CreateSlices) != 1 || len(changes.DeleteSlices) != 1 {
		t.Errorf("another source slice plans %+v", changes)
	}
	for what, change := range map[string]func(*discoveryv1.EndpointSlice){
		"an address":  func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.1.0.8"} },
		"a condition": func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(false) },
		"a port":      func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(8123)) },
	} {
		c.Members[0] = exporting("c1", 1, 80, "10.1.0.1")
		change(c.Members[0].Slices[0])
		if changes := Plan(c.state()); len(changes.UpdateSlices) != 1 {
			t.Errorf("%s of a slice with a digest plans %+v", what, changes)
		}
	}
}

// C29: Absent if there are no slices, for example for a Service without a selector.
func TestEndpointSliceObjectsAreAbsent(t *testing.T) {
	c := newName("c2", exporting("c1", 1, 80))
	c.settle(t)
	equal(t, "without slices", c.imp.Status.EndpointSliceObjects, mcsv1beta1.EndpointSliceObjectsAbsent)
	c.Members[0] = publishing(exporting("c1", 1, 80, "10.1.0.1"))
	c.settle(t)
	equal(t, "with one", c.imp.Status.EndpointSliceObjects, mcsv1beta1.EndpointSliceObjectsPresent)
}

// An import that others made outlives every export, and others own its conditions. No endpoint of the
// controller remains in it, and only the description of the Service is published.
func TestOthersImportOutlivesTheExports(t *testing.T) {
	c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"))
	c.settle(t)
	handOver(c.imp)
	c.settle(t)
	if len(c.slices) != 1 || len(c.slices[0].Endpoints) > 0 || c.slices[0].Annotations[mcs.AnnotationTerms] == "" {
		t.Errorf("slices %v", c.slices)
	}
	c.Members, c.Export = nil, nil
	c.settle(t)
	equal(t, "slices", len(c.slices), 0)
	if !c.imported {
		t.Error("it was deleted")
	}
}

// Conditions report the actual state: no condition is planned together with another write.
func TestConditionsComeLast(t *testing.T) {
	c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"), mirrored(exporting("c2", 0, 8080, "10.2.0.1")))
	for range 20 {
		changes := Plan(c.state())
		if changes.Empty() {
			return
		}
		for what, planned := range map[string]bool{"the import's": changes.ImportStatus != nil, "the export's": changes.ExportStatus != nil} {
			if planned && changes.Writes() > 1 {
				t.Errorf("%s status is planned with %d other writes: %+v", what, changes.Writes()-1, changes)
			}
		}
		c.write(changes)
	}
	t.Error("it plans forever")
}

// What the API server refuses is reported where users can see it, and affects nothing else.
func refusedImport(reason string) observed.Refused {
	return observed.Refused{{Kind: observed.Import}: {{Message: reason}}}
}

func refusedSlice(name, reason string) observed.Refused {
	return observed.Refused{{Kind: observed.Slice, Name: name}: {{Message: reason}}}
}

func TestRefusalsAreReported(t *testing.T) {
	c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"))
	st := c.state()
	st.Refused = refusedImport("exceeded quota")
	changes := Plan(st)
	if changes.CreateImport != nil || changes.ExportStatus == nil {
		t.Fatalf("it plans %+v", changes)
	}
	ready := meta.FindStatusCondition(changes.ExportStatus.New.Status.Conditions, "Ready")
	if ready.Status != metav1.ConditionFalse || ready.Reason != "Failed" || !strings.Contains(ready.Message, "exceeded quota") {
		t.Errorf("Ready is %+v", ready)
	}
	c.settle(t)
	// An update is refused: nothing follows from what the import does not contain, and its
	// condition reports the refusal.
	c.Members[0] = exporting("c1", 1, 81, "10.1.0.1")
	st = c.state()
	if changes = Plan(st); changes.Import == nil || changes.Writes() > 1 {
		t.Fatalf("it plans %+v", changes)
	}
	st.Refused = refusedImport("no such port")
	for changes = Plan(st); len(changes.UpdateSlices) > 0; changes = Plan(st) {
		c.write(changes)
		st.Slices = c.slices
	}
	if changes.Import != nil || changes.Service != nil || changes.ImportStatus == nil {
		t.Fatalf("it plans %+v", changes)
	}
	if c := meta.FindStatusCondition(changes.ImportStatus.New.Status.Conditions, "Ready"); c.Reason != desired.ReasonImportRefused || !strings.Contains(c.Message, "no such port") {
		t.Errorf("Ready is %+v", c)
	}
	c.Members[0] = exporting("c1", 1, 80, "10.1.0.1")
	c.settle(t)
	c.Members = append(c.Members, mirrored(exporting("c2", 3, 80, "10.2.0.1")))
	first := Plan(c.state())
	refused := first.CreateSlices[0]
	c.write(diff.Changes{Import: first.Import})
	st = c.state()
	st.Refused = refusedSlice(refused.Name, "no such address")
	changes = Plan(st)
	if len(changes.CreateSlices) > 0 || changes.ImportStatus == nil {
		t.Fatalf("it plans %+v", changes)
	}
	if message := meta.FindStatusCondition(changes.ImportStatus.New.Status.Conditions, "Ready").Message; !strings.Contains(message, "endpoints of c2: no such address") {
		t.Errorf("Ready says %q", message)
	}
}

// An import that Karmada manages is never the controller's, whatever other label it has: Karmada
// would revert the rest.
func TestKarmadasImportIsNeverManaged(t *testing.T) {
	c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"))
	c.settle(t)
	c.imp.Labels[mcs.LabelKarmadaManaged] = "true"
	c.Members[0] = exporting("c1", 1, 81, "10.1.0.1")
	c.settle(t)
	equal(t, "port", c.imp.Spec.Ports[0].Port, int32(80))
	equal(t, "slices", len(c.slices), 0)
	c.Members, c.Export = nil, nil
	c.settle(t)
	if !c.imported {
		t.Error("it was deleted")
	}
}

// TestDigestOfACacheIsNotForged is a regression test: a user with permission to write
// EndpointSlices could edit the endpoints of a slice of the controller, and add an annotation with
// the digest of the former endpoints. The slice then seemed unchanged.
func TestDigestOfACacheIsNotForged(t *testing.T) {
	c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"), mirrored(exporting("c2", 0, 80, "10.2.0.1")))
	c.settle(t)
	for _, slice := range c.slices {
		digested := slice.DeepCopy()
		digest.Keep(digested)
		// A tenant knows the key up to the random part.
		for key, value := range digested.Annotations {
			slice.Annotations[key[:min(len(key), len("clusterset-dns.io/digest"))]] = value
		}
		slice.Endpoints[0].Addresses = []string{"10.66.66.66"}
		digest.Keep(slice)
	}
	if changes := Plan(c.state()); len(changes.UpdateSlices) != 2 {
		t.Errorf("the plan puts %d of 2 edited slices right", len(changes.UpdateSlices))
	}
}

// TestNamesOfPeersAreLabels is a regression test: the slices of a Service "foo.eu" of the peer
// "acme" had the same names as those of "foo" of the cluster "eu.acme".
func TestNamesOfPeersAreLabels(t *testing.T) {
	c := newName("home", mirrored(exporting("acme", 0, 80, "10.66.0.1")))
	c.Export = nil
	st := c.state()
	st.Name = "foo.eu"
	for _, slice := range st.Clusterset.Members[0].Slices {
		slice.Labels[mcsv1beta1.LabelServiceName] = "foo.eu"
	}
	if changes := Plan(st); !changes.Empty() {
		t.Errorf("planned for a name that no Service can have: %+v", changes)
	}
	equal(t, "slices", len(desired.ImportedSlices("home", types.NamespacedName{Namespace: "default", Name: "foo.eu"}, merge.Merge(c.Members), c.Members, 100)), 0)
}

func buildOf(st observed.State) desired.Desired {
	known := observed.Recall(st)
	return desired.Build(st, known, merge.Merge(known.Members))
}
