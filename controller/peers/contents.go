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

// contents is what one peer exports.
type contents struct {
	exports exports
	slices  slicesOf
	synced  [resources]bool
	watched watched
	// later are the names that have changed since the last snapshot was made, nil without one.
	later map[types.NamespacedName]bool
	of    *contents // of a snapshot: what it is a copy of
}

func newContents() *contents { return &contents{exports: exports{}, slices: newSlices()} }

// complete reports whether each resource has been listed.
func (c *contents) complete() bool { return c.synced == [resources]bool{true, true, true} }

// snapshot returns a copy that does not change. Values are never changed in place, so only the
// tables are copied.
func (c *contents) snapshot() *contents {
	c.later = map[types.NamespacedName]bool{}
	copied := slicesOf{byService: maps.Clone(c.slices.byService), services: maps.Clone(c.slices.services), count: &count{c.slices.count.endpoints}}
	return &contents{exports: maps.Clone(c.exports), slices: copied, synced: c.synced, of: c}
}

// noteLater notes names that have changed, if there is a snapshot to compare with.
func (c *contents) noteLater(names []types.NamespacedName) {
	for _, name := range names {
		if c.later != nil {
			c.later[name] = true
		}
	}
}

// member returns what the peer exports under a name.
func (c *contents) member(id string, name types.NamespacedName) (merge.Member, bool) {
	m := merge.Member{Cluster: id, Export: c.exports[name], Slices: c.slices.byService[name]}
	if m.Export == nil && len(m.Slices) == 0 {
		return m, false
	}
	if t := c.slices.services[name]; t != nil {
		m.Service = &t.ServiceSpec
	}
	return m, true
}

// names returns the names for which member returns true. Some names occur twice.
func (c *contents) names() iter.Seq[types.NamespacedName] {
	return func(yield func(types.NamespacedName) bool) {
		for name := range c.exports {
			if !yield(name) {
				return
			}
		}
		for name := range c.slices.byService {
			if !yield(name) {
				return
			}
		}
	}
}

// differences returns the names whose members differ between a and b. Of a snapshot of b, only what has changed since is compared: a peer
// could cause it to be made again and again.
func differences(a, b *contents) map[types.NamespacedName]bool {
	candidates := b.later
	if a.of != b {
		candidates = a.allNames()
		maps.Copy(candidates, b.allNames())
	}
	b.later = nil
	maps.DeleteFunc(candidates, func(name types.NamespacedName, _ bool) bool {
		ma, _ := a.member("", name)
		mb, _ := b.member("", name)
		return equality.Semantic.DeepEqual(ma, mb)
	})
	return candidates
}

func (c *contents) allNames() map[types.NamespacedName]bool {
	all := map[types.NamespacedName]bool{}
	for name := range c.names() {
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
