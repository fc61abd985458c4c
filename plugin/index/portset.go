package index

import (
	"cmp"
	"hash/maphash"
	"slices"
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
// a few. Its keys are the hashes of the sets. If two sets have the same hash, only one is shared.
type sharedPorts map[uint64]*usedPorts

type usedPorts struct {
	set   *portSet
	users int // services
}

// share returns the copy to use in place of a set. Its user must release it.
func (s sharedPorts) share(set *portSet) *portSet {
	if set == noPorts {
		return set
	}
	hash := set.hash()
	used, ok := s[hash]
	if !ok {
		s[hash] = &usedPorts{set, 1}
		return set
	}
	if !slices.Equal(used.set.list, set.list) {
		return set
	}
	used.users++
	return used.set
}

func (s sharedPorts) release(set *portSet) {
	if set == noPorts {
		return
	}
	hash := set.hash()
	used, ok := s[hash]
	if !ok || used.set != set {
		return
	}
	if used.users--; used.users == 0 {
		delete(s, hash)
	}
}
