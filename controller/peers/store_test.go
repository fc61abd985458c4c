package peers

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/lenient"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// heard contains contents, the stores that write them, and the names that were reported.
type heard struct {
	*contents
	exports, slices cache.ReflectorStore
	told            []types.NamespacedName
}

func newHeard() *heard {
	s, v := &Registry{}, newContents()
	h := &heard{contents: v}
	tell := func(names []types.NamespacedName) { h.told = append(h.told, names...) }
	h.exports = newStore(s, v.exports, &v.synced[ofExports], trimExport, tell)
	h.slices = newStore(s, v.slices, &v.synced[ofSlices], s.trimSlice, tell)
	return h
}

// changes returns the names that were reported since its last call.
func (h *heard) changes() []string {
	var all []string
	for _, name := range h.told {
		all = append(all, name.Name)
	}
	h.told = nil
	slices.Sort(all)
	return slices.Compact(all)
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "demo", Name: name} }

func exportOf(name string) *serviceExport {
	return &serviceExport{Base: lenient.Base{ObjectMeta: named(name)}}
}

// describing adds the description of a Service with one port to a slice.
func describing(slice *discoveryv1.EndpointSlice, port int32) *discoveryv1.EndpointSlice {
	if slice.Annotations == nil {
		slice.Annotations = map[string]string{}
	}
	slice.Annotations[mcs.AnnotationTerms] = terms(port)
	return slice
}

// terms is a description of a Service with one port.
func terms(port int32) string {
	return fmt.Sprintf(`{"Type":"ClusterSetIP","Ports":[{"name":"http","protocol":"TCP","port":%d}],"Affinity":"None","InternalPolicy":"Cluster"}`, port)
}

func sliceOf(name, service string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: named(name), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels = map[string]string{mcsv1beta1.LabelServiceName: service}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s
}

func TestRelistReportsDifferences(t *testing.T) {
	h := newHeard()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	list := func(s *discoveryv1.EndpointSlice) []any {
		return []any{sliceOf("a-1", "a", "10.0.0.1"), sliceOf("b-1", "b", "10.0.0.1"), s}
	}
	must(h.slices.Replace(list(sliceOf("c-1", "c", "10.0.0.1")), "1"))
	if got := h.changes(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the first list told of %v", got)
	}
	newer := list(sliceOf("c-1", "c", "10.0.0.1"))
	newer[0].(*discoveryv1.EndpointSlice).ResourceVersion = "7"
	newer[0].(*discoveryv1.EndpointSlice).Generation = 7
	must(h.slices.Replace(newer, "2"))
	if got := h.changes(); len(got) > 0 {
		t.Errorf("the same list told of %v", got)
	}
	must(h.slices.Replace(list(sliceOf("d-1", "d", "10.0.0.1")), "3"))
	if got := h.changes(); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("c for d told of %v", got)
	}
	must(h.slices.Replace(list(sliceOf("b-2", "b", "10.0.0.2")), "4"))
	if got := h.contents.slices.byService[types.NamespacedName{Namespace: "demo", Name: "b"}]; len(got) != 2 || len(h.changes()) != 2 {
		t.Errorf("b has %d slices", len(got))
	}
}

// TestOddObjectsCostNoOther lists unusual objects together with normal ones.
func TestOddObjectsCostNoOther(t *testing.T) {
	h := newHeard()
	fqdn := sliceOf("named", "n", "example.com")
	fqdn.AddressType = discoveryv1.AddressTypeFQDN
	ofNothing := sliceOf("nothing", "", "10.0.0.1")
	bare := &discoveryv1.EndpointSlice{ObjectMeta: named("bare")}
	empty := sliceOf("empty", "e")
	empty.Endpoints = make([]discoveryv1.Endpoint, 2) // no address, no condition
	if err := h.slices.Replace([]any{"no object", fqdn, ofNothing, bare, empty, sliceOf("good", "g", "10.0.0.1")}, "1"); err != nil {
		t.Fatal(err)
	}
	if got := h.changes(); !slices.Equal(got, []string{"e", "g"}) {
		t.Errorf("told of %v", got)
	}
	ending := exportOf("ending")
	ending.DeletionTimestamp = new(metav1.Now())
	if err := h.exports.Replace([]any{ending, exportOf("e")}, "1"); err != nil {
		t.Fatal(err)
	}
	if got := h.changes(); !slices.Equal(got, []string{"e"}) {
		t.Errorf("told of %v", got)
	}
}

// TestEqualServicesShareMemory checks that equal Services share one spec, and that it is removed
// with them.
func TestEqualServicesShareMemory(t *testing.T) {
	h := newHeard()
	for i := range 100 {
		if err := h.slices.Add(describing(sliceOf(fmt.Sprintf("s%d-1", i), fmt.Sprintf("s%d", i)), 80)); err != nil {
			t.Fatal(err)
		}
	}
	if len(h.contents.slices.shared) != 1 {
		t.Errorf("%d specs of equal Services", len(h.contents.slices.shared))
	}
	h.changes()
	for _, err := range []error{h.slices.Update(describing(sliceOf("s1-1", "s1"), 80)), h.slices.Update(describing(sliceOf("s2-1", "s2"), 81))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := h.changes(); !slices.Equal(got, []string{"s2"}) || len(h.contents.slices.shared) != 2 {
		t.Errorf("told of %v, and %d specs", got, len(h.contents.slices.shared))
	}
	if m, _ := h.member("", types.NamespacedName{Namespace: "demo", Name: "s2"}); m.Service.Ports[0].Port != 81 {
		t.Errorf("s2 is %+v", m.Service)
	}
	if err := h.slices.Replace(nil, "2"); err != nil {
		t.Fatal(err)
	}
	if len(h.contents.slices.shared) > 0 {
		t.Errorf("%d specs of no Service", len(h.contents.slices.shared))
	}
}

// TestMemoryOfAPeer limits the memory of a Service: 15 000 Services with 10 endpoints may use
// 300 MiB, including everything that is created from them.
func TestMemoryOfAPeer(t *testing.T) {
	const services, endpoints, most = 5000, 10, 3000
	h := newHeard()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range services {
		name := fmt.Sprintf("service-%d", i)
		slice := sliceOf(name+"-x7kq2", name)
		slice.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-01-01T00:00:00Z"}
		slice.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "multicluster-controller", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 1000))}}
		for e := range endpoints {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{fmt.Sprintf("10.%d.%d.%d", i/250, i%250, e)}, NodeName: new(fmt.Sprintf("node-%d", e)), Zone: new(fmt.Sprintf("zone-%d", e%3)),
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
				TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: fmt.Sprintf("%s-%d", name, e)},
			})
		}
		for _, err := range []error{h.exports.Add(exportOf(name)), h.slices.Add(describing(slice, 80))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		h.told = nil
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := int64(after.HeapAlloc-before.HeapAlloc) / services; each > most {
		t.Errorf("%d bytes for each service; want at most %d", each, most)
	} else {
		t.Logf("%d bytes for each service", each)
	}
	runtime.KeepAlive(h)
}

// A slice that a controller manages, and that is being deleted and kept by a finalizer, is not
// imported.
func TestTrimOfSlicesThatAreBeingDeleted(t *testing.T) {
	s := &Registry{}
	for manager, want := range map[string]bool{mcs.ControllerName: false, "me": true} {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-1", DeletionTimestamp: new(metav1.Now()),
			Finalizers: []string{"example.org/held"}, Labels: map[string]string{mcsv1beta1.LabelServiceName: "db", discoveryv1.LabelManagedBy: manager}}}
		if _, got := s.trimSlice(slice); got != want {
			t.Errorf("one that %q manages is kept: %v, want %v", manager, got, want)
		}
	}
}
