package index

import (
	"hash/maphash"
	"maps"
)

// table is a map that never changes: with returns a new one that shares all but the touched parts. A copy costs one pointer for each
// part and one part's entries for each edit, whatever the table's size; a lookup costs two hashes.
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

// with sets the keys of set and removes those of remove.
func (t table[K, V]) with(set map[K]V, remove []K) table[K, V] {
	next := table[K, V]{parts: append(make([]map[K]V, 0, tableParts), t.parts...), n: t.n}
	own := map[uint64]bool{}
	writable := func(key K) map[K]V {
		at := part(key)
		if !own[at] {
			own[at] = true
			next.parts[at] = maps.Clone(next.parts[at])
			if next.parts[at] == nil {
				next.parts[at] = map[K]V{}
			}
		}
		return next.parts[at]
	}
	for key, v := range set {
		m := writable(key)
		before := len(m)
		m[key] = v
		next.n += len(m) - before
	}
	for _, key := range remove {
		m := writable(key)
		before := len(m)
		delete(m, key)
		next.n += len(m) - before
	}
	return next
}

// all calls f for each entry, in no order.
func (t table[K, V]) all(f func(K, V)) {
	for _, m := range t.parts {
		for key, v := range m {
			f(key, v)
		}
	}
}
