package index

// State is the set of objects that an index is made from. It remembers which services an edit touched, so that the next index
// costs in proportion to what changed. The zero value is not ready; use NewState. It is not safe for concurrent use.
type State struct {
	services  map[Key]Service
	slices    map[SliceID]Slice
	owned     map[Key][]SliceID // the slices of each service
	dirty     map[Key]struct{}
	endpoints int
}

// Change says, for each service that may have changed, what it is made of now; nil where it is gone.
type Change map[Key]*Input

// Input is one service with all of its slices.
type Input struct {
	Service Service
	Slices  []Slice
}

// NewState returns a State that holds nothing.
func NewState() *State {
	return &State{
		services: map[Key]Service{},
		slices:   map[SliceID]Slice{},
		owned:    map[Key][]SliceID{},
		dirty:    map[Key]struct{}{},
	}
}

// SetService adds or replaces a service. It says whether that could change an answer.
func (s *State) SetService(service Service) bool {
	if old, ok := s.services[service.Key]; ok && old.Equal(service) {
		return false
	}
	s.services[service.Key] = service
	s.dirty[service.Key] = struct{}{}
	return true
}

// DeleteService removes a service, if it is there.
func (s *State) DeleteService(key Key) bool {
	if _, ok := s.services[key]; !ok {
		return false
	}
	delete(s.services, key)
	s.dirty[key] = struct{}{}
	return true
}

// SetSlice adds or replaces a slice; one that moved to another service leaves the former.
func (s *State) SetSlice(slice Slice) bool {
	old, ok := s.slices[slice.SliceID]
	if ok && old.Equal(slice) {
		return false
	}
	if ok {
		s.DeleteSlice(old.SliceID)
	}
	key := slice.Key()
	s.slices[slice.SliceID] = slice
	s.endpoints += len(slice.Endpoints)
	s.owned[key] = append(s.owned[key], slice.SliceID)
	s.dirty[key] = struct{}{}
	return true
}

// DeleteSlice removes a slice, if it is there.
func (s *State) DeleteSlice(id SliceID) bool {
	slice, ok := s.slices[id]
	if !ok {
		return false
	}
	delete(s.slices, id)
	s.endpoints -= len(slice.Endpoints)
	key := slice.Key()
	rest := s.owned[key][:0]
	for _, other := range s.owned[key] {
		if other != id {
			rest = append(rest, other)
		}
	}
	s.owned[key] = rest
	if len(rest) == 0 {
		delete(s.owned, key)
	}
	s.dirty[key] = struct{}{}
	return true
}

// Drain returns what changed since the last Drain.
func (s *State) Drain() Change {
	change := make(Change, len(s.dirty))
	for key := range s.dirty {
		change[key] = s.input(key)
	}
	clear(s.dirty)
	return change
}

func (s *State) input(key Key) *Input {
	service, ok := s.services[key]
	if !ok {
		return nil
	}
	in := &Input{Service: service}
	if service.Type == Headless { // a ClusterSetIP's names do not depend on its endpoints (SPEC 2.3)
		for _, id := range s.owned[key] {
			in.Slices = append(in.Slices, s.slices[id])
		}
	}
	return in
}

// Services is the number of services.
func (s *State) Services() int { return len(s.services) }

// Endpoints is the number of ready endpoint addresses, of all slices.
func (s *State) Endpoints() int { return s.endpoints }

// ReplaceServices makes the services of a namespace ("" for all) the given ones, as a new list of them says.
func (s *State) ReplaceServices(namespace string, services []Service) {
	listed := make(map[Key]struct{}, len(services))
	for _, service := range services {
		listed[service.Key] = struct{}{}
		s.SetService(service)
	}
	for key := range s.services {
		if _, ok := listed[key]; !ok && (namespace == "" || key.Namespace == namespace) {
			s.DeleteService(key)
		}
	}
}

// ReplaceSlices makes the slices of a namespace ("" for all) the given ones, as a new list of them says.
func (s *State) ReplaceSlices(namespace string, slices []Slice) {
	listed := make(map[SliceID]struct{}, len(slices))
	for _, slice := range slices {
		listed[slice.SliceID] = struct{}{}
		s.SetSlice(slice)
	}
	for id := range s.slices {
		if _, ok := listed[id]; !ok && (namespace == "" || id.Namespace == namespace) {
			s.DeleteSlice(id)
		}
	}
}
