package peers

import (
	"iter"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/member"
)

// exports is a table of ServiceExports.
type exports map[types.NamespacedName]*merge.Export

func (e exports) put(id types.NamespacedName, value *merge.Export, changed []types.NamespacedName) []types.NamespacedName {
	was := e[id]
	e[id] = value
	if was != nil && was.Same(value) {
		return changed
	}
	return append(changed, id)
}

func (e exports) drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	if e[id] == nil {
		return changed
	}
	delete(e, id)
	return append(changed, id)
}

func (e exports) ids() iter.Seq[types.NamespacedName] { return maps.Keys(e) }

// described is an exported Service, as a slice describes it. Names with equal descriptions share one.
type described struct {
	merge.ServiceSpec
	text string
	refs int
}

// slicesOf is a table of EndpointSlices. The list of a Service is never changed in place, so a
// caller can keep it.
type slicesOf struct {
	byID      map[types.NamespacedName]*discoveryv1.EndpointSlice
	byService map[types.NamespacedName][]*discoveryv1.EndpointSlice // sorted by name
	services  map[types.NamespacedName]*described
	shared    map[string]*described // by the text
	count     *count
}

// count is the number of endpoints in a table.
type count struct{ endpoints int }

func newSlices() slicesOf {
	return slicesOf{
		byID: map[types.NamespacedName]*discoveryv1.EndpointSlice{}, byService: map[types.NamespacedName][]*discoveryv1.EndpointSlice{},
		services: map[types.NamespacedName]*described{}, shared: map[string]*described{}, count: &count{},
	}
}

func exportedService(slice *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[mcsv1beta1.LabelServiceName]}
}

func (s slicesOf) put(id types.NamespacedName, slice *discoveryv1.EndpointSlice, changed []types.NamespacedName) []types.NamespacedName {
	was := s.byID[id]
	if was != nil && equality.Semantic.DeepEqual(was, slice) {
		return changed
	}
	service := exportedService(slice)
	if was != nil {
		s.count.endpoints -= len(was.Endpoints)
	}
	s.count.endpoints += len(slice.Endpoints)
	if was != nil && exportedService(was) != service {
		s.count.endpoints += len(was.Endpoints)
		changed = s.drop(id, changed)
	}
	s.byID[id] = slice
	list := s.byService[service]
	at, found := slices.BinarySearchFunc(list, slice, bySliceName)
	after := list[at:]
	if found {
		after = after[1:]
	}
	s.byService[service] = slices.Concat(list[:at], []*discoveryv1.EndpointSlice{slice}, after)
	return s.changed(service, changed)
}

func (s slicesOf) drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	was := s.byID[id]
	if was == nil {
		return changed
	}
	delete(s.byID, id)
	s.count.endpoints -= len(was.Endpoints)
	service := exportedService(was)
	list := slices.DeleteFunc(slices.Clone(s.byService[service]), func(other *discoveryv1.EndpointSlice) bool { return other == was })
	if len(list) > 0 {
		s.byService[service] = list
	} else {
		delete(s.byService, service)
	}
	return s.changed(service, changed)
}

// changed appends a Service whose slices, and perhaps its description, have changed.
func (s slicesOf) changed(service types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	if all := s.byService[service]; len(all) > 0 {
		s.describe(service, all)
	} else {
		s.setService(service, nil)
	}
	return append(changed, service)
}

// describe reads the description of a Service. The first one counts, by the names of the slices. Without a readable one, the last one
// stays: a user has removed it.
func (s slicesOf) describe(service types.NamespacedName, all []*discoveryv1.EndpointSlice) {
	for _, slice := range all {
		text := slice.Annotations[mcs.AnnotationTerms]
		if text == "" {
			continue
		}
		one := s.shared[text]
		if one == nil {
			one = &described{text: text}
			if !one.ReadTerms(text) {
				continue
			}
		}
		s.setService(service, one)
		return
	}
}

// setService sets what is known of a Service, nil for nothing.
func (s slicesOf) setService(service types.NamespacedName, to *described) {
	was := s.services[service]
	if was == to {
		return
	}
	if was != nil {
		if was.refs--; was.refs == 0 {
			delete(s.shared, was.text)
		}
	}
	if to == nil {
		delete(s.services, service)
		return
	}
	to.refs++
	s.services[service], s.shared[to.text] = to, to
}

func (s slicesOf) ids() iter.Seq[types.NamespacedName] { return maps.Keys(s.byID) }

func bySliceName(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) }

// announcement is the table of the Lease that a peer announces itself with.
type announcement struct {
	*member.Announcement
	namespace string
}

func trimMember(object any) (member.Announcement, bool) {
	l := object.(*coordinationv1.Lease)
	return member.Read(l), l.Name == member.Name
}

// put does not report a heartbeat, which is read at the next evaluation: it is no change for all peers.
func (a announcement) put(id types.NamespacedName, value member.Announcement, changed []types.NamespacedName) []types.NamespacedName {
	same := a.Same(value)
	*a.Announcement = value
	if same {
		return changed
	}
	return append(changed, id)
}

func (a announcement) drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	*a.Announcement = member.Announcement{}
	return append(changed, id)
}

func (a announcement) ids() iter.Seq[types.NamespacedName] {
	return func(yield func(types.NamespacedName) bool) {
		if *a.Announcement != (member.Announcement{}) {
			yield(types.NamespacedName{Namespace: a.namespace, Name: member.Name})
		}
	}
}
