package peers

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
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

func byCluster(a, b merge.Member) int { return strings.Compare(a.Cluster, b.Cluster) }

func sortedNames(all map[types.NamespacedName]bool) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(all), func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}
