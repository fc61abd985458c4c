package index

import (
	"cmp"
	"slices"
)

// Backlog contains the services whose blocks take long to build, so that other changes need not
// wait for them. It builds one at a time, as a Change of its own. If a service changes several
// times, only the last change waits. The zero value is empty. It is not safe for concurrent use,
// except that the result of Next can be built while Take is called.
type Backlog struct {
	waiting map[Key][]*Slice
	order   []Key // of all waiting services, the largest first
	current Key   // of the change that is being built; "" if there is none
	stale   bool  // a newer block than the one being built is already published
}

// Take moves the services that take long to build into the backlog. It returns the rest of the
// change, which it consumes, and whether it moved any. The rest contains the smallest services,
// which together have at most the given number of endpoints and ports.
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

// bySize returns the services, the smallest first.
func bySize(headless map[Key][]*Slice) []Key {
	keys := make([]Key, 0, len(headless))
	for key := range headless {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Compare(size(headless[a]), size(headless[b])) })
	return keys
}

// size estimates the time to build a block of the slices.
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

// drop removes a service that is already answered from newer objects.
func (b *Backlog) drop(key Key) {
	if _, ok := b.waiting[key]; ok {
		delete(b.waiting, key)
		b.order = slices.DeleteFunc(b.order, func(other Key) bool { return other == key })
	}
	b.stale = b.stale || key == b.current
}

// Busy reports whether some service of the backlog is not done.
func (b *Backlog) Busy() bool { return b.current != "" || len(b.order) > 0 }

// Next returns the next change to build, of one service. ok is false if none waits or one is being
// built. The caller must call Done with the result.
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

// Done returns the part of the built change that must still be published. It is empty if a newer
// change has overtaken it.
func (b *Backlog) Done(built Change) Change {
	b.current = ""
	if b.stale {
		return Change{}
	}
	return built
}
