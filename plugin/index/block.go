package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// block is all that exists at and below one service's name. It never changes: a new one takes its place. There is one for each
// import, so each of its words counts.
type block struct {
	addrs   addrs    // the service name's own
	ports   []port   // sorted, each once
	numbers []uint16 // ClusterSetIP: the numbers of all ports, sorted, each once; a headless block has them in the groups of its hosts
	hosts   *hosts   // nil unless headless
}

// ofManaged stands in a State for the block of a headless service whose managed slices make it; nil for one that all its slices make. It is
// in no Index.
var ofManaged = new(block)

// addrs is a set of addresses, each family sorted.
type addrs struct {
	v4 [][4]byte
	v6 [][16]byte
}

// port is a number of _<name>._<protocol>, and the hosts that have it: those of a group, or the service itself.
type port struct {
	name, protocol string
	group          int32 // in hosts.groups; 0 for a ClusterSetIP service
	number         uint16
}

func (p port) compare(q port) int {
	return cmp.Or(p.compareNames(q.name, q.protocol), cmp.Compare(p.group, q.group), cmp.Compare(p.number, q.number))
}

func (p port) compareNames(name, protocol string) int {
	if byProtocol := strings.Compare(p.protocol, protocol); byProtocol != 0 {
		return byProtocol
	}
	return strings.Compare(p.name, name)
}

// virtualBlock makes the block of a ClusterSetIP service, which depends on nothing else (SPEC 2.3).
func virtualBlock(s Service) *block {
	ports := make([]port, 0, len(s.Ports))
	for _, p := range s.Ports {
		ports = append(ports, port{p.Name, p.Protocol, 0, p.Number})
	}
	return &block{addrs: newAddrs(slices.Values(s.IPs)), ports: sortedOnce(ports, port.compare), numbers: numbersOf(s.Ports)}
}

// headlessBlock makes the block of a headless service, or nil where no name of it exists: without any ready endpoint (SPEC 2.4.1).
func headlessBlock(parts []*Slice) *block {
	all := newAddrs(func(yield func(netip.Addr) bool) {
		for _, s := range parts {
			for _, e := range s.Endpoints {
				if !yield(e.Addr) {
					return
				}
			}
		}
	})
	if len(all.v4)+len(all.v6) == 0 {
		return nil
	}
	hosts, ports := newHosts(parts)
	return &block{addrs: all, hosts: hosts, ports: ports}
}

// numbersOf is the numbers of ports, sorted, each once.
func numbersOf(ports []Port) []uint16 {
	numbers := make([]uint16, 0, len(ports))
	for _, p := range ports {
		numbers = append(numbers, p.Number)
	}
	return sortedOnce(numbers, cmp.Compare)
}

// sortedOnce sorts a list, leaves each value once, and returns it without spare capacity.
func sortedOnce[T comparable](list []T, compare func(T, T) int) []T {
	slices.SortFunc(list, compare)
	return fitted(slices.Compact(list))
}

// fitted is a list without spare capacity; one that has some is copied.
func fitted[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	return append(room[T](len(list)), list...)
}

func newAddrs(ips iter.Seq[netip.Addr]) addrs {
	n4, n6 := count(ips)
	v4, v6 := make([]uint32, 0, n4), make([][16]byte, 0, n6)
	for ip := range ips {
		if ip.Is4() {
			four := ip.As4()
			v4 = append(v4, binary.BigEndian.Uint32(four[:])) // numbers are sorted several times faster than arrays
		} else {
			v6 = append(v6, ip.As16())
		}
	}
	slices.Sort(v4)
	v4 = slices.Compact(v4)
	a := addrs{v4: room[[4]byte](len(v4))[:len(v4)]}
	for i, n := range v4 {
		binary.BigEndian.PutUint32(a.v4[i][:], n)
	}
	if n6 > 0 {
		a.v6 = sortedOnce(v6, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	}
	return a
}

// count is how many addresses there are of each family.
func count(ips iter.Seq[netip.Addr]) (v4, v6 int) {
	for ip := range ips {
		if ip.Is4() {
			v4++
		} else {
			v6++
		}
	}
	return v4, v6
}

// room is a slice for n values and no more, so that what is kept for long has no spare capacity.
func room[T any](n int) []T {
	if n == 0 {
		return nil
	}
	return make([]T, 0, n)
}

// node is what one name has: the addresses of the service, those of one host, or the targets of SRV records; all may be none.
type node struct {
	addrs addrs
	host  []place
	ports []port // one name and protocol
	own   bool   // the service's own name, which has the targets of all ports
}

// at is the node at the labels below the service's name, and whether that name exists.
func (b *block) at(below string) (node, bool) {
	if below == "" {
		return node{addrs: b.addrs, own: true}, true
	}
	if below[0] == '_' { // no host name or cluster id begins so
		return b.atPort(below[1:])
	}
	if b.hosts == nil {
		return node{}, false
	}
	host, ok := b.hosts.at(below)
	return node{host: host}, ok
}

// atPort finds "<port>._<proto>", or "<proto>" alone, which exists above a port and has no record.
func (b *block) atPort(labels string) (node, bool) {
	name, protocol, ok := strings.Cut(labels, "._")
	if !ok {
		_, ok = slices.BinarySearchFunc(b.ports, labels, func(p port, protocol string) int { return strings.Compare(p.protocol, protocol) })
		return node{}, ok
	}
	ports := b.portsNamed(name, protocol)
	return node{ports: ports}, len(ports) > 0
}

func (b *block) portsNamed(name, protocol string) []port {
	from, ok := slices.BinarySearchFunc(b.ports, name, func(p port, name string) int { return p.compareNames(name, protocol) })
	if !ok {
		return nil
	}
	return b.ports[from : from+alike(b.ports[from:], func(p port) bool { return p.name == name && p.protocol == protocol })]
}

// alike is how many values a sorted list has, from the first one on, that are like the first. There are few as a rule, and there can be
// thousands: it looks at the second value, then ever further, and halves the last step.
func alike[T any](list []T, like func(T) bool) int {
	step := 1
	for step < len(list) && like(list[step]) {
		step *= 2
	}
	from, to := step/2+1, min(step, len(list))
	for from < to {
		middle := (from + to) / 2
		if like(list[middle]) {
			from = middle + 1
		} else {
			to = middle
		}
	}
	return to
}
