package index

import (
	"slices"
	"weak"
)

// State is the set of objects that an index is built from. It remembers which services an edit
// affected, so that the next index costs in proportion to the change. The zero value is not ready;
// use NewState. It is not safe for concurrent use.
type State struct {
	services  table[Key, *block] // the State's own; the blocks of ClusterSetIP services are shared with the index
	ports     sharedPorts        // of all services
	dirty     map[Key]*block     // the services that may have changed since the last Drain; nil: deleted
	slices    map[SliceID]*Slice
	owned     map[Key][]*Slice // the slices of each service
	endpoints int
}

// Change contains, for each service that may have changed, its current content.
type Change struct {
	blocks   map[Key]*block   // nil: deleted
	headless map[Key][]*Slice // slices of the services whose block is built from slices
}

// NewState returns an empty State.
func NewState() *State {
	return &State{
		services: newTable[Key, *block](),
		ports:    sharedPorts{sets: map[uint64]weak.Pointer[portSet]{}},
		dirty:    map[Key]*block{},
		slices:   map[SliceID]*Slice{},
		owned:    map[Key][]*Slice{},
	}
}

// SetService adds or replaces a service. It reports whether an answer can change.
func (s *State) SetService(e Entry) bool {
	old := s.services.get(e.Key)
	if old.equal(e.block) {
		return false
	}
	s.replace(e.Key, e.block.withPorts(s.ports.share(e.block.ports)))
	return true
}

// replace replaces a block, nil by none.
func (s *State) replace(key Key, next *block) {
	s.services.set(key, next)
	s.dirty[key] = next
}

// touch makes a service a part of the next Change, because its slices changed.
func (s *State) touch(key Key) { s.dirty[key] = s.services.get(key) }

// DeleteService removes a service if it exists. It reports whether an answer can change.
func (s *State) DeleteService(key Key) bool {
	if s.services.get(key) == nil {
		return false
	}
	s.replace(key, nil)
	return true
}

// SetSlice adds or replaces a slice. A slice that now belongs to another service is removed from
// the former one. The State owns the slice's lists from then on, and sorts them. It reports whether
// an answer can change.
func (s *State) SetSlice(slice Slice) bool {
	slice.normalize()
	old, ok := s.slices[slice.SliceID]
	if ok && old.Equal(slice) {
		return false
	}
	if ok {
		s.DeleteSlice(old.SliceID)
	}
	key := slice.Key()
	s.slices[slice.SliceID] = &slice
	s.endpoints += len(slice.Endpoints)
	s.owned[key] = append(s.owned[key], &slice)
	s.touch(key)
	return true
}

// DeleteSlice removes a slice if it exists. It reports whether an answer can change.
func (s *State) DeleteSlice(id SliceID) bool {
	slice, ok := s.slices[id]
	if !ok {
		return false
	}
	delete(s.slices, id)
	s.endpoints -= len(slice.Endpoints)
	key := slice.Key()
	s.owned[key] = slices.DeleteFunc(s.owned[key], func(other *Slice) bool { return other == slice })
	if len(s.owned[key]) == 0 {
		delete(s.owned, key)
	}
	s.touch(key)
	return true
}

// Drain returns what changed since the last Drain.
func (s *State) Drain() Change {
	change := Change{s.dirty, map[Key][]*Slice{}}
	for key, b := range change.blocks {
		// The names of a ClusterSetIP service do not depend on its endpoints (SPEC 2.3).
		if b == nil || b.unbuilt == isBuilt {
			continue
		}
		parts := slices.Clone(s.owned[key])
		if b.unbuilt == ofManagedSlices {
			parts = slices.DeleteFunc(parts, func(slice *Slice) bool { return !slice.Managed })
		}
		change.headless[key] = parts
		delete(change.blocks, key)
	}
	s.dirty = map[Key]*block{}
	return change
}

// Services returns the number of services.
func (s *State) Services() int { return s.services.n }

// Endpoints returns the number of ready endpoint addresses of all slices.
func (s *State) Endpoints() int { return s.endpoints }

// ReplaceServices replaces all services of a namespace ("" for all namespaces), from a new list.
func (s *State) ReplaceServices(namespace string, services []Entry) {
	first := s.services.n == 0 // the largest list of all, the first, needs no comparison
	listed := map[Key]struct{}{}
	for _, e := range services {
		s.SetService(e)
		if !first {
			listed[e.Key] = struct{}{}
		}
	}
	if first {
		return
	}
	for _, key := range s.services.keys() {
		if _, ok := listed[key]; !ok && (namespace == "" || key.Namespace() == namespace) {
			s.DeleteService(key)
		}
	}
}

// ReplaceSlices replaces all slices of a namespace ("" for all namespaces), from a new list.
func (s *State) ReplaceSlices(namespace string, all []Slice) {
	listed := make(map[SliceID]struct{}, len(all))
	for _, slice := range all {
		listed[slice.SliceID] = struct{}{}
		s.SetSlice(slice)
	}
	for id := range s.slices {
		if _, ok := listed[id]; !ok && (namespace == "" || id.Namespace == namespace) {
			s.DeleteSlice(id)
		}
	}
}
