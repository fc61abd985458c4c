package peers

import (
	"iter"
	"maps"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
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

// sharedSpec is the spec that several equal Services of a peer share.
type sharedSpec struct {
	merge.ServiceSpec
	key  string
	refs int
}

// services is a table of Services. Most Services are not exported, and most of those are equal.
type services struct {
	of     *contents
	byName map[types.NamespacedName]*sharedSpec
	shared map[string]*sharedSpec // by the key of the spec
}

func (s services) put(id types.NamespacedName, value *sharedSpec, changed []types.NamespacedName) []types.NamespacedName {
	was := s.byName[id]
	if was != nil && was.key == value.key {
		return changed
	}
	if one := s.shared[value.key]; one != nil {
		value = one
	} else {
		s.shared[value.key] = value
	}
	value.refs++
	s.byName[id] = value
	s.release(was)
	return s.tell(id, changed)
}

func (s services) drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	was := s.byName[id]
	if was == nil {
		return changed
	}
	delete(s.byName, id)
	s.release(was)
	return s.tell(id, changed)
}

func (s services) release(t *sharedSpec) {
	if t == nil {
		return
	}
	if t.refs--; t.refs == 0 {
		delete(s.shared, t.key)
	}
}

// tell appends the name of a Service that is exported. It omits other Services.
func (s services) tell(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	if _, exported := s.of.member("", id); !exported {
		return changed
	}
	return append(changed, id)
}

func (s services) ids() iter.Seq[types.NamespacedName] { return maps.Keys(s.byName) }

// slicesOf is a table of EndpointSlices. The list of a Service is never changed in place, so a
// caller can keep it.
type slicesOf struct {
	of        *contents
	byID      map[types.NamespacedName]*discoveryv1.EndpointSlice
	byService map[types.NamespacedName][]*discoveryv1.EndpointSlice // sorted by name
	count     *count
}

// count is the number of endpoints in a table.
type count struct{ endpoints int }

func newSlices() slicesOf {
	return slicesOf{count: &count{}, byID: map[types.NamespacedName]*discoveryv1.EndpointSlice{}, byService: map[types.NamespacedName][]*discoveryv1.EndpointSlice{}}
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

// changed appends a Service whose slices have changed. They can also describe it.
func (s slicesOf) changed(service types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	if s.of.published {
		s.of.describe(service, nil)
	}
	return append(changed, service)
}

func (s slicesOf) ids() iter.Seq[types.NamespacedName] { return maps.Keys(s.byID) }

func bySliceName(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) }
