package members

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// view is what one peer has said.
type view struct {
	exports  exports
	services services
	slices   slicesOf
	synced   [resources]bool
}

func newView() *view {
	v := &view{exports: exports{}, slices: newSlices(mcsv1beta1.LabelServiceName)}
	v.services = services{view: v, byName: map[types.NamespacedName]*terms{}, shared: map[string]*terms{}}
	return v
}

// complete is true once everything has been heard.
func (v *view) complete() bool { return v.synced == [resources]bool{true, true, true, true} }

// snapshot stays as it is. The values of a view are never changed in place, so the tables are all that is copied.
func (v *view) snapshot() *view {
	c := &view{exports: maps.Clone(v.exports), slices: slicesOf{label: v.slices.label, byService: maps.Clone(v.slices.byService)}, synced: v.synced}
	c.services = services{view: c, byName: maps.Clone(v.services.byName)}
	return c
}

// member is what the peer says of a name. Its Service alone says nothing.
func (v *view) member(id string, name types.NamespacedName) (merge.Member, bool) {
	m := merge.Member{Cluster: id, Export: v.exports[name], Slices: v.slices.byService[name]}
	if m.Export == nil && len(m.Slices) == 0 {
		return m, false
	}
	if t := v.services.byName[name]; t != nil {
		m.Service = &t.ServiceSpec
	}
	return m, true
}

// names are those of which member says something; some come twice.
func (v *view) names() iter.Seq[types.NamespacedName] {
	return func(yield func(types.NamespacedName) bool) {
		for name := range v.exports {
			if !yield(name) {
				return
			}
		}
		for name := range v.slices.byService {
			if !yield(name) {
				return
			}
		}
	}
}

// differences are the names of which two views say something else.
func differences(a, b *view) map[types.NamespacedName]bool {
	all := map[types.NamespacedName]bool{}
	for _, v := range []*view{a, b} {
		for name := range v.names() {
			ma, _ := a.member("", name)
			mb, _ := b.member("", name)
			if !equality.Semantic.DeepEqual(ma, mb) {
				all[name] = true
			}
		}
	}
	return all
}

func (v *view) allNames() map[types.NamespacedName]bool {
	all := map[types.NamespacedName]bool{}
	for name := range v.names() {
		all[name] = true
	}
	return all
}

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

// trimExport leaves out what no API server sends: an export that is not what its CRD says.
func trimExport(object any) (*merge.Export, bool) {
	of := object.(*serviceExport)
	export := merge.TrimExport(&mcsv1beta1.ServiceExport{ObjectMeta: of.ObjectMeta, Spec: of.Spec})
	return export, export != nil && of.Err == nil && isName(of.Namespace, of.Name)
}

// isName is true where both are DNS labels (RFC 1123), as the names of all Services and namespaces are. What an API server says need
// not be so: a "Service" foo.eu of the peer acme would share the names of its slices with foo of the peer eu.acme.
func isName(namespace, name string) bool {
	return len(validation.IsDNS1123Label(namespace))+len(validation.IsDNS1123Label(name)) == 0
}

// terms are those of all Services of a peer that have the same.
type terms struct {
	merge.ServiceSpec
	key  string
	refs int
}

// services is a table of Services. Most are exported by nobody, and most of those are alike.
type services struct {
	view   *view
	byName map[types.NamespacedName]*terms
	shared map[string]*terms // by their key
}

func (s services) put(id types.NamespacedName, value *terms, changed []types.NamespacedName) []types.NamespacedName {
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

func (s services) release(t *terms) {
	if t == nil {
		return
	}
	if t.refs--; t.refs == 0 {
		delete(s.shared, t.key)
	}
}

// tell leaves out a Service that nobody exports.
func (s services) tell(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	if _, said := s.view.member("", id); !said {
		return changed
	}
	return append(changed, id)
}

func (s services) ids() iter.Seq[types.NamespacedName] { return maps.Keys(s.byName) }

func trimService(object any) (*terms, bool) {
	of := object.(*corev1.Service)
	t := merge.TrimService(of)
	key, err := json.Marshal(t) // which has no error: there are strings and numbers
	return &terms{ServiceSpec: *t, key: string(key)}, err == nil && isName(of.Namespace, of.Name)
}

// slicesOf is a table of EndpointSlices. The lists of a Service are never changed in place: who was given one may keep it.
type slicesOf struct {
	label     string                           // that says of which Service a slice is
	lost      func(*discoveryv1.EndpointSlice) // hears of each that is not the Service's any more, or gone; may be nil
	byID      map[types.NamespacedName]*discoveryv1.EndpointSlice
	byService map[types.NamespacedName][]*discoveryv1.EndpointSlice // by their names
}

func newSlices(label string) slicesOf {
	return slicesOf{label, nil, map[types.NamespacedName]*discoveryv1.EndpointSlice{}, map[types.NamespacedName][]*discoveryv1.EndpointSlice{}}
}

func (s slicesOf) service(slice *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[s.label]}
}

func (s slicesOf) put(id types.NamespacedName, slice *discoveryv1.EndpointSlice, changed []types.NamespacedName) []types.NamespacedName {
	was := s.byID[id]
	if was != nil && equality.Semantic.DeepEqual(was, slice) {
		return changed
	}
	service := s.service(slice)
	if was != nil && s.service(was) != service {
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
	return append(changed, service)
}

func (s slicesOf) drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	was := s.byID[id]
	if was == nil {
		return changed
	}
	delete(s.byID, id)
	if s.lost != nil {
		s.lost(was)
	}
	service := s.service(was)
	list := slices.DeleteFunc(slices.Clone(s.byService[service]), func(other *discoveryv1.EndpointSlice) bool { return other == was })
	if len(list) > 0 {
		s.byService[service] = list
	} else {
		delete(s.byService, service)
	}
	return append(changed, service)
}

func (s slicesOf) ids() iter.Seq[types.NamespacedName] { return maps.Keys(s.byID) }

func bySliceName(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) }

// trimSlice leaves out slices with names instead of addresses, and slices of no Service. Of imported ones it also leaves out those whose
// Service has an invalid name, and those of a controller that are being deleted: they are gone as soon as their finalizers are. In the own
// cluster, kube-proxy uses a slice until it is gone.
func (s *Set) trimSlice(label string) func(any) (*discoveryv1.EndpointSlice, bool) {
	return func(object any) (*discoveryv1.EndpointSlice, bool) {
		slice := object.(*discoveryv1.EndpointSlice)
		imported := label == mcsv1beta1.LabelServiceName
		if slice.AddressType == discoveryv1.AddressTypeFQDN || slice.Labels[label] == "" ||
			imported && (!isName(slice.Namespace, slice.Labels[label]) || ownership.OfSlice(slice) && slice.DeletionTimestamp != nil) {
			return nil, false
		}
		merge.TrimSlice(slice)
		slice.ResourceVersion, slice.Generation = "", 0 // which change with what was trimmed
		slice.Namespace = *s.pool.one(&slice.Namespace)
		slice.Endpoints = tight(slice.Endpoints)
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			e.NodeName, e.Zone = s.pool.one(e.NodeName), s.pool.one(e.Zone)
		}
		return slice, true
	}
}

// tight is a slice without room to grow: a decoder leaves up to half of it empty.
func tight[T any](all []T) []T {
	if len(all) == cap(all) || len(all) == 0 {
		return all
	}
	return append(make([]T, 0, len(all)), all...)
}

// identity is how a cluster says which it is.
type identity struct {
	uid   types.UID         // of its namespace kube-system, which no two clusters share
	by    map[string]string // namespace: the ids that controllers announce
	home  string            // the own controller's namespace; "" for a peer
	lasts bool              // home is there, and is not being deleted
}

// said is what one namespace says of the cluster.
type said struct {
	uid   types.UID // of kube-system only
	id    string    // that is announced there
	lasts bool      // of the own controller's namespace only
}

func (i *identity) put(id types.NamespacedName, value said, changed []types.NamespacedName) []types.NamespacedName {
	if id.Name == systemNamespace {
		i.uid = value.uid
	}
	if id.Name == i.home {
		i.lasts = value.lasts
	}
	if value.id == "" {
		delete(i.by, id.Name)
	} else {
		i.by[id.Name] = value.id
	}
	return append(changed, id)
}

func (i *identity) drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	own := id.Name == i.home && i.lasts
	if _, announced := i.by[id.Name]; !announced && !own {
		return changed
	}
	delete(i.by, id.Name)
	i.lasts = i.lasts && !own
	return append(changed, id)
}

func (i *identity) ids() iter.Seq[types.NamespacedName] {
	return func(yield func(types.NamespacedName) bool) {
		for namespace := range i.by {
			if !yield(types.NamespacedName{Name: namespace}) {
				return
			}
		}
		if i.lasts {
			yield(types.NamespacedName{Name: i.home})
		}
	}
}

const systemNamespace = "kube-system"

func trimNamespace(object any) (said, bool) {
	namespace := object.(*corev1.Namespace)
	of := said{id: namespace.Annotations[mcs.AnnotationClusterID]}
	if len(of.id) > validation.LabelValueMaxLength { // Not an ID (C34). It is shown, and an annotation may have 256 KiB.
		of.id = of.id[:validation.LabelValueMaxLength] + "..."
	}
	if namespace.Name == systemNamespace {
		of.uid = namespace.UID
	}
	return of, of != said{}
}

// trimHome also keeps whether the controller's own namespace lasts.
func trimHome(own string) func(any) (said, bool) {
	return func(object any) (said, bool) {
		of, ok := trimNamespace(object)
		if namespace := object.(*corev1.Namespace); namespace.Name == own {
			of.lasts, ok = namespace.DeletionTimestamp == nil, true
		}
		return of, ok
	}
}

func (i *identity) announced() []string { return slices.Compact(slices.Sorted(maps.Values(i.by))) }

func (i *identity) announces(id string) bool { return slices.Contains(i.announced(), id) }

func byCluster(a, b merge.Member) int { return strings.Compare(a.Cluster, b.Cluster) }

func sortedNames(all map[types.NamespacedName]bool) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(all), func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}
