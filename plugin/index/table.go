package index

import (
	"hash/maphash"
	"maps"
	"slices"
)

// table is an immutable map. with returns a new one that shares all unaffected parts. A copy costs
// one pointer for each part, and the entries of one part for each edit, whatever the size of the
// table. A lookup costs two hashes.
type table[K comparable, V any] struct {
	parts []map[K]V
	n     int
}

// With 1024 parts an edit among 100 000 entries copies 8 KiB of pointers and about a hundred entries.
const tableParts = 1024

var tableSeed = maphash.MakeSeed()

func newTable[K comparable, V any]() table[K, V] {
	return table[K, V]{parts: make([]map[K]V, tableParts)}
}

func part[K comparable](key K) uint64 { return maphash.Comparable(tableSeed, key) % tableParts }

func (t table[K, V]) get(key K) (V, bool) {
	v, ok := t.parts[part(key)][key]
	return v, ok
}

// with sets the keys of a change, and removes those whose new value is the zero value.
func (t table[K, V]) with(change map[K]V, none func(V) bool) table[K, V] {
	next := table[K, V]{parts: slices.Clone(t.parts), n: t.n}
	own := map[uint64]bool{}
	for key, v := range change {
		at := part(key)
		if !own[at] {
			own[at] = true
			next.parts[at] = maps.Clone(next.parts[at])
			if next.parts[at] == nil {
				next.parts[at] = map[K]V{}
			}
		}
		m := next.parts[at]
		before := len(m)
		if none(v) {
			delete(m, key)
		} else {
			m[key] = v
		}
		next.n += len(m) - before
	}
	return next
}

// all calls f for each entry, in no particular order.
func (t table[K, V]) all(f func(K, V)) {
	for _, m := range t.parts {
		for key, v := range m {
			f(key, v)
		}
	}
}
