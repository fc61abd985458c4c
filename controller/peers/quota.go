package peers

import (
	"cmp"
	"iter"

	"github.com/google/btree"
	"k8s.io/apimachinery/pkg/types"
)

// quota keeps what a peer exports within max-services and max-endpoints: the names of the oldest exports, and then their endpoints. So a new
// export displaces no other one. A change of a name costs the logarithm of the number of names, and the names whose part
// really changes: the limits are for hostile peers, which would otherwise choose what an event costs.
// The nil quota has no limits.
type quota struct {
	names     prefix // each name weighs 1
	endpoints prefix // the names of the first one with endpoints, which weigh as many
	at        map[types.NamespacedName]ranked
}

// ranked is a name with the time of its export, in seconds, and the number of its endpoints.
type ranked struct {
	created   int64
	name      types.NamespacedName
	endpoints int
}

func older(a, b ranked) bool {
	return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.name.Namespace, b.name.Namespace), cmp.Compare(a.name.Name, b.name.Name)) < 0
}

// newQuota returns the quota of names for limits, of which 0 is none.
func newQuota(services, endpoints int, all iter.Seq[ranked]) *quota {
	q := &quota{
		names: newPrefix(services, func(r ranked) int {
			if r == (ranked{}) {
				return 0
			}
			return 1
		}),
		endpoints: newPrefix(endpoints, func(r ranked) int { return r.endpoints }),
		at:        map[types.NamespacedName]ranked{},
	}
	for r := range all {
		q.set(r)
	}
	return q
}

// set adds or changes a name, and returns the names whose part has changed.
func (q *quota) set(r ranked) (changed []types.NamespacedName) {
	was := q.at[r.name]
	if was == r {
		return nil
	}
	q.at[r.name] = r
	if was.created == r.created && q.names.has(was) {
		return q.endpoints.change(was, r)
	}
	return q.follow(q.names.change(was, r), was)
}

// remove removes a name, and returns the other names whose part has changed.
func (q *quota) remove(name types.NamespacedName) (changed []types.NamespacedName) {
	was, known := q.at[name]
	if !known {
		return nil
	}
	delete(q.at, name)
	changed = q.follow(q.names.change(was, ranked{}), ranked{})
	return append(changed, q.endpoints.change(was, ranked{})...)
}

// follow lets the endpoints follow the names that have come within max-services, or have left it. was is what the changed name was before.
func (q *quota) follow(moved []types.NamespacedName, was ranked) (changed []types.NamespacedName) {
	changed = moved
	for _, name := range moved {
		r := q.at[name]
		before, is := r, ranked{}
		if name == was.name {
			before = was
		}
		if q.names.has(r) {
			is = r
		}
		changed = append(changed, q.endpoints.change(before, is)...)
	}
	return changed
}

// excess reports whether a name is beyond max-services.
func (q *quota) excess(name types.NamespacedName) bool {
	if q == nil {
		return false
	}
	r, known := q.at[name]
	return known && !q.names.has(r)
}

// keeps returns how many of its endpoints a name keeps, false for all.
func (q *quota) keeps(name types.NamespacedName) (left int, short bool) {
	if q == nil {
		return 0, false
	}
	r, known := q.at[name]
	if !known || r.endpoints == 0 || q.endpoints.has(r) {
		return 0, false
	}
	if edge, part := q.endpoints.edge(); edge == name {
		return part, true
	}
	return 0, true
}

// beyond returns the names that do not have all of their part.
func (q *quota) beyond() (names []types.NamespacedName) {
	if q == nil {
		return nil
	}
	for _, of := range []prefix{q.names, q.endpoints} {
		of.beyond.Ascend(func(r ranked) bool {
			names = append(names, r.name)
			return true
		})
	}
	return names
}

// same reports whether a name has the same part in two quotas.
func (q *quota) same(other *quota, name types.NamespacedName) bool {
	left, short := q.keeps(name)
	otherLeft, otherShort := other.keeps(name)
	return q.excess(name) == other.excess(name) && left == otherLeft && short == otherShort
}

// refused returns the number of names and of endpoints that the limits refuse.
func (q *quota) refused() (names, endpoints int) {
	if q == nil {
		return 0, 0
	}
	_, part := q.endpoints.edge()
	return q.names.beyond.Len(), q.endpoints.refused - part
}

// prefix divides names by age: the oldest, whose weight is within a limit, and those beyond it.
type prefix struct {
	limit           int // 0 for none
	weight          func(ranked) int
	within, beyond  *btree.BTreeG[ranked]
	weighs, refused int // the weight of both
}

func newPrefix(limit int, weight func(ranked) int) prefix {
	const degree = 32
	return prefix{limit: limit, weight: weight, within: btree.NewG(degree, older), beyond: btree.NewG(degree, older)}
}

func (p *prefix) has(r ranked) bool { return p.within.Has(r) }

// change replaces a name, or adds or removes it if the other one is the zero value. It returns the names whose part of the limit has
// changed, among them one that was added.
func (p *prefix) change(was, is ranked) (changed []types.NamespacedName) {
	edge, part := p.edge()
	if !p.take(p.within, was) {
		p.take(p.beyond, was)
	}
	if p.weight(is) > 0 {
		if first, any := p.beyond.Min(); any && older(first, is) {
			p.put(p.beyond, is)
		} else {
			p.put(p.within, is)
		}
		changed = append(changed, is.name)
	}
	changed = append(changed, p.settle()...)
	now, nowPart := p.edge()
	if now == edge && nowPart == part {
		return changed
	}
	if part > 0 {
		changed = append(changed, edge)
	}
	if nowPart > 0 && (now != edge || part == 0) {
		changed = append(changed, now)
	}
	return changed
}

// settle moves names until those within the limit are as many as possible, and returns those that have moved.
func (p *prefix) settle() (moved []types.NamespacedName) {
	for {
		last, any := p.within.Max()
		if any && p.limit > 0 && p.weighs > p.limit {
			p.take(p.within, last)
			p.put(p.beyond, last)
			moved = append(moved, last.name)
			continue
		}
		first, any := p.beyond.Min()
		if !any || p.weighs+p.weight(first) > p.limit {
			return moved
		}
		p.take(p.beyond, first)
		p.put(p.within, first)
		moved = append(moved, first.name)
	}
}

// edge returns the first name beyond the limit, and which part of its weight is within it.
func (p *prefix) edge() (name types.NamespacedName, part int) {
	if first, any := p.beyond.Min(); any {
		return first.name, p.limit - p.weighs
	}
	return name, 0
}

func (p *prefix) put(to *btree.BTreeG[ranked], r ranked) {
	to.ReplaceOrInsert(r)
	*p.sum(to) += p.weight(r)
}

func (p *prefix) take(from *btree.BTreeG[ranked], r ranked) bool {
	_, found := from.Delete(r)
	if found {
		*p.sum(from) -= p.weight(r)
	}
	return found
}

func (p *prefix) sum(of *btree.BTreeG[ranked]) *int {
	if of == p.within {
		return &p.weighs
	}
	return &p.refused
}
