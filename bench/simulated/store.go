package simulated

import (
	"bytes"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/watch"
)

// store has the objects of one kind, and the last changes of them. The Server's lock guards it.
type store struct {
	kind *kind
	// items are sorted. A change makes a new slice, so that a list can be read without the lock.
	items []*item
	// events are the last changes, in their order. They are only appended to or replaced.
	events []event
	// forgotten is the version of the last change that is not in events.
	forgotten uint64
	// changed is closed by the next change.
	changed chan struct{}
}

// event is a change of one object.
type event struct {
	version       uint64
	before, after *item // nil if there was none, or is none
	// gone is before with the event's version, for the watches that lose the object: it is deleted, or has other labels.
	gone *item
}

func newStore(k *kind) *store { return &store{kind: k, changed: make(chan struct{})} }

// find returns where an object is, or where it would be.
func (s *store) find(of *item) (at int, found bool) {
	return slices.BinarySearchFunc(s.items, of, (*item).compare)
}

// get returns an object, or nil.
func (s *store) get(namespace, name string) *item {
	if at, found := s.find(&item{namespace: namespace, name: name}); found {
		return s.items[at]
	}
	return nil
}

// put adds or replaces an object.
func (s *store) put(after *item, history int) error {
	at, found := s.find(after)
	all := slices.Clone(s.items)
	if !found {
		s.items = slices.Insert(all, at, after)
		s.append(event{version: after.version, after: after}, history)
		return nil
	}
	e := event{version: after.version, before: s.items[at], after: after}
	if !maps.Equal(e.before.labels, after.labels) {
		var err error
		if e.gone, err = e.before.at(after.version); err != nil {
			return err
		}
	}
	all[at] = after
	s.items = all
	s.append(e, history)
	return nil
}

// remove removes an object that exists.
func (s *store) remove(before *item, version uint64, history int) error {
	gone, err := before.at(version)
	if err != nil {
		return err
	}
	at, _ := s.find(before)
	s.items = slices.Delete(slices.Clone(s.items), at, at+1)
	s.append(event{version: version, before: before, gone: gone}, history)
	return nil
}

// append adds a change, forgets the oldest ones, and wakes the watches.
func (s *store) append(e event, history int) {
	s.events = append(s.events, e)
	if len(s.events) > 2*history {
		s.forget(len(s.events) - history)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// forget forgets the oldest changes. Those that remain are copied: a watch can be reading the old slice.
func (s *store) forget(count int) {
	if count > 0 {
		s.forgotten = s.events[count-1].version
		s.events = slices.Clone(s.events[count:])
	}
}

// after returns the changes after a version, or false if some of them are forgotten.
func (s *store) after(version uint64) (events []event, known bool) {
	if version < s.forgotten {
		return nil, false
	}
	at, _ := slices.BinarySearchFunc(s.events, version+1, func(e event, v uint64) int { return int(int64(e.version) - int64(v)) })
	return s.events[at:len(s.events):len(s.events)], true
}

// last returns the version of the last change.
func (s *store) last() uint64 {
	if len(s.events) == 0 {
		return s.forgotten
	}
	return s.events[len(s.events)-1].version
}

// seen returns the change as a watch of a selection sees it, or false if it sees nothing: an object whose labels are no longer selected
// is deleted for the watch.
func (e event) seen(by selection) (kind watch.EventType, of *item, sees bool) {
	had, has := by.has(e.before), by.has(e.after)
	switch {
	case had && has:
		return watch.Modified, e.after, true
	case has:
		return watch.Added, e.after, true
	case had:
		return watch.Deleted, e.gone, true
	default:
		return "", nil, false
	}
}

// same reports whether an object differs from the stored one in nothing but its version: an API server makes no event of that.
func (i *item) same(other *item) bool {
	again, err := other.at(i.version)
	return err == nil && bytes.Equal(again.text, i.text)
}
