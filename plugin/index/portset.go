package index

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"weak"
)

// portSet contains the named ports of a service. It never changes.
type portSet struct {
	list    []port   // sorted, without duplicates
	numbers []uint16 // ClusterSetIP: the numbers of all ports, sorted, without duplicates; headless blocks have them in the groups of hosts
}

// noPorts is the set of services without named ports.
var noPorts = new(portSet)

// newPortSet returns the ports of a ClusterSetIP service.
func newPortSet(ports []Port) *portSet {
	if len(ports) == 0 {
		return noPorts
	}
	list := make([]port, 0, len(ports))
	for _, p := range ports {
		list = append(list, port{p.Name, p.Protocol, 0, p.Number})
	}
	return &portSet{sortedOnce(list, port.compare), numbersOf(ports)}
}

// numbersOf returns the numbers of ports, sorted, without duplicates.
func numbersOf(ports []Port) []uint16 {
	numbers := make([]uint16, 0, len(ports))
	for _, p := range ports {
		numbers = append(numbers, p.Number)
	}
	return sortedOnce(numbers, cmp.Compare)
}

func (s *portSet) hash() uint64 {
	var h maphash.Hash
	h.SetSeed(tableSeed)
	for _, p := range s.list {
		maphash.WriteComparable(&h, p)
	}
	return h.Sum64()
}

// sharedPorts has one copy of each set of ports, because most services of a clusterset have one of
// a few. Its keys are the hashes of the sets. If two sets have the same hash, only one is shared. A
// set that no service and no index has any more goes with the garbage.
type sharedPorts struct {
	sets map[uint64]weak.Pointer[portSet]
	most int // of entries, before those whose set has gone are removed
}

// share returns the copy to use in place of a set.
func (s *sharedPorts) share(set *portSet) *portSet {
	if set == noPorts {
		return set
	}
	hash := set.hash()
	if used := s.sets[hash].Value(); used != nil {
		if slices.Equal(used.list, set.list) {
			return used
		}
		return set
	}
	if len(s.sets) >= s.most {
		maps.DeleteFunc(s.sets, func(_ uint64, p weak.Pointer[portSet]) bool { return p.Value() == nil })
		s.most = 2*len(s.sets) + 64
	}
	s.sets[hash] = weak.Make(set)
	return set
}
