package index

import (
	"cmp"
	"slices"
)

// Backlog has the services of changes whose blocks take long to make, so that the others need not wait for them. Each is a Change of
// its own, made one at a time; of several changes to a service only the last one waits. The zero value is empty. It is not safe for
// concurrent use; what Next returns may be built while Take is called.
type Backlog struct {
	waiting map[Key][]*Slice
	order   []Key // of all that wait, the longest first
	current Key   // of the change that is being built; "" for none
	stale   bool  // what replaces the current one is answered already
}

// Take adds what takes long to make, and returns the rest of the change, which it uses up, and whether something was added. The rest has
// the smallest services: so many that they have no more than a number of endpoints and ports in all.
func (b *Backlog) Take(c Change, most int) (rest Change, added bool) {
	for key := range c.blocks {
		b.drop(key)
	}
	for _, key := range bySize(c.headless) {
		if most -= size(c.headless[key]); most >= 0 {
			b.drop(key)
			continue
		}
		b.add(key, c.headless[key])
		delete(c.headless, key)
		added = true
	}
	return c, added
}

// bySize is the services, the smallest first.
func bySize(headless map[Key][]*Slice) []Key {
	keys := make([]Key, 0, len(headless))
	for key := range headless {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Compare(size(headless[a]), size(headless[b])) })
	return keys
}

// size is about how long it takes to make a block of the slices.
func size(parts []*Slice) (n int) {
	for _, s := range parts {
		n += len(s.Endpoints) + len(s.Ports)
	}
	return n
}

func (b *Backlog) add(key Key, parts []*Slice) {
	if b.waiting == nil {
		b.waiting = map[Key][]*Slice{}
	}
	if _, ok := b.waiting[key]; !ok {
		b.order = append(b.order, key)
	}
	b.waiting[key] = parts
}

// drop forgets a service that is answered from newer objects.
func (b *Backlog) drop(key Key) {
	if _, ok := b.waiting[key]; ok {
		delete(b.waiting, key)
		b.order = slices.DeleteFunc(b.order, func(other Key) bool { return other == key })
	}
	b.stale = b.stale || key == b.current
}

// Next is the next change to build, of one service, if there is one and none is being built. Done has to be called with it.
func (b *Backlog) Next() (Change, bool) {
	if b.current != "" || len(b.order) == 0 {
		return Change{}, false
	}
	key := b.order[0]
	next := Change{map[Key]*block{}, map[Key][]*Slice{key: b.waiting[key]}}
	b.order = b.order[1:]
	delete(b.waiting, key)
	b.current, b.stale = key, false
	return next, true
}

// Done returns what of the built change is still to be published: nothing where it has been overtaken.
func (b *Backlog) Done(built Change) Change {
	b.current = ""
	if b.stale {
		return Change{}
	}
	return built
}
