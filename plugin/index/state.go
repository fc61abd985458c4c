package index

import "slices"

// State is the set of objects that an index is built from. It remembers which services an edit
// affected, so that the next index costs in proportion to the change. The zero value is not ready;
// use NewState. It is not safe for concurrent use.
type State struct {
	services  map[Key]*block // of ClusterSetIP services, shared with the index; nil or ofManaged for a headless one, whose slices make the block
	slices    map[SliceID]*Slice
	owned     map[Key][]*Slice // the slices of each service
	dirty     map[Key]struct{}
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
		services: map[Key]*block{},
		slices:   map[SliceID]*Slice{},
		owned:    map[Key][]*Slice{},
		dirty:    map[Key]struct{}{},
	}
}

// SetService adds or replaces a service. It reports whether an answer can change.
func (s *State) SetService(e Entry) bool {
	if old, ok := s.services[e.Key]; ok && old.equal(e.block) {
		return false
	}
	s.services[e.Key] = e.block
	s.dirty[e.Key] = struct{}{}
	return true
}

// DeleteService removes a service if it exists. It reports whether an answer can change.
func (s *State) DeleteService(key Key) bool {
	if _, ok := s.services[key]; !ok {
		return false
	}
	delete(s.services, key)
	s.dirty[key] = struct{}{}
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
	s.dirty[key] = struct{}{}
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
	s.dirty[key] = struct{}{}
	return true
}

// Drain returns what changed since the last Drain.
func (s *State) Drain() Change {
	change := Change{make(map[Key]*block, len(s.dirty)), map[Key][]*Slice{}}
	for key := range s.dirty {
		// The names of a ClusterSetIP service do not depend on its endpoints (SPEC 2.3).
		switch b, ok := s.services[key]; {
		case ok && b == nil:
			change.headless[key] = slices.Clone(s.owned[key])
		case b == ofManaged:
			change.headless[key] = slices.DeleteFunc(slices.Clone(s.owned[key]), func(slice *Slice) bool { return !slice.Managed })
		default:
			change.blocks[key] = b
		}
	}
	s.dirty = map[Key]struct{}{} // a cleared map keeps its size, which the first list made large
	return change
}

// Services returns the number of services.
func (s *State) Services() int { return len(s.services) }

// Endpoints returns the number of ready endpoint addresses of all slices.
func (s *State) Endpoints() int { return s.endpoints }

// ReplaceServices replaces all services of a namespace ("" for all namespaces), from a new list.
func (s *State) ReplaceServices(namespace string, services []Entry) {
	first := len(s.services) == 0 // the largest list of all, the first, needs no comparison
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
	for key := range s.services {
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
