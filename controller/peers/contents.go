package peers

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/merge"
)

// contents are what one peer exports.
type contents struct {
	exports  exports
	services services
	slices   slicesOf
	synced   [resources]bool
}

func newContents() *contents {
	v := &contents{exports: exports{}, slices: newSlices()}
	v.services = services{view: v, byName: map[types.NamespacedName]*terms{}, shared: map[string]*terms{}}
	return v
}

// complete is true once each resource has been listed.
func (v *contents) complete() bool { return v.synced == [resources]bool{true, true, true, true} }

// snapshot returns contents that stay as they are. Values are never changed in place, so only the tables are copied.
func (v *contents) snapshot() *contents {
	c := &contents{exports: maps.Clone(v.exports), slices: slicesOf{byService: maps.Clone(v.slices.byService)}, synced: v.synced}
	c.services = services{view: c, byName: maps.Clone(v.services.byName)}
	return c
}

// member is what the peer exports under a name. A Service without a ServiceExport or slices is nothing.
func (v *contents) member(id string, name types.NamespacedName) (merge.Member, bool) {
	m := merge.Member{Cluster: id, Export: v.exports[name], Slices: v.slices.byService[name]}
	if m.Export == nil && len(m.Slices) == 0 {
		return m, false
	}
	if t := v.services.byName[name]; t != nil {
		m.Service = &t.ServiceSpec
	}
	return m, true
}

// names are those for which member returns something; some come twice.
func (v *contents) names() iter.Seq[types.NamespacedName] {
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
func differences(a, b *contents) map[types.NamespacedName]bool {
	all := map[types.NamespacedName]bool{}
	for _, v := range []*contents{a, b} {
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

func (v *contents) allNames() map[types.NamespacedName]bool {
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
