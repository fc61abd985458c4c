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

// block contains everything at and below the name of one service. It never changes; a new block
// replaces it. There is one for each import, so each word of it counts.
type block struct {
	key     Key
	ports   *portSet
	hosts   *hosts     // nil unless headless
	many    *addrs     // the addresses of the service itself, unless there is only one, of IPv4
	one     [1][4]byte // that address
	unbuilt unbuilt    // in a State, for a headless service
}

// withPorts returns the block with an equal set of ports.
func (b *block) withPorts(set *portSet) *block {
	if b.ports == set {
		return b
	}
	c := *b
	c.ports = set
	return &c
}

// unbuilt is the kind of slices that the block of a headless service is still to be built from. An
// Index has only blocks that are built.
type unbuilt uint8

const (
	isBuilt unbuilt = iota
	ofAllSlices
	ofManagedSlices
)

func (b *block) id() Key { return b.key }

// addrs returns the addresses of the service itself.
func (b *block) addrs() addrs {
	if b.many != nil {
		return *b.many
	}
	return addrs{v4: b.one[:]}
}

func (b *block) setAddrs(a addrs) {
	if len(a.v4) == 1 && len(a.v6) == 0 {
		b.one[0] = a.v4[0]
		return
	}
	b.many = &a
}

// addrs is a set of addresses, each family sorted.
type addrs struct {
	v4 [][4]byte
	v6 [][16]byte
}

// port is a number of _<name>._<protocol>, and the hosts that have it: those of a group, or the
// service itself.
type port struct {
	name, protocol string
	group          int32 // index into hosts.groups; 0 for a ClusterSetIP service
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

// virtualBlock builds the block of a ClusterSetIP service, which depends on its import only (SPEC
// 2.3).
func virtualBlock(s Service) *block {
	b := &block{key: s.Key, ports: newPortSet(s.Ports)}
	b.setAddrs(newAddrs(slices.Values(s.IPs)))
	return b
}

// headlessBlock builds the block of a headless service. It returns nil if no name of it exists: if
// it has no ready endpoint (SPEC 2.4.1). Slices on standby have only the names of their hosts.
func headlessBlock(key Key, parts []*Slice) *block {
	if !slices.ContainsFunc(parts, func(s *Slice) bool { return len(s.Endpoints) > 0 }) {
		return nil
	}
	all := newAddrs(func(yield func(netip.Addr) bool) {
		for _, s := range parts {
			if s.Standby {
				continue
			}
			for _, e := range s.Endpoints {
				if !yield(e.Addr) {
					return
				}
			}
		}
	})
	hosts, ports := newHosts(parts)
	b := &block{key: key, hosts: hosts, ports: &portSet{list: ports}}
	b.setAddrs(all)
	return b
}

// sortedOnce sorts a list, removes duplicates, and returns it without spare capacity.
func sortedOnce[T comparable](list []T, compare func(T, T) int) []T {
	slices.SortFunc(list, compare)
	return fitted(slices.Compact(list))
}

// fitted returns the list without spare capacity. It copies a list that has some.
func fitted[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	return append(exactly[T](len(list)), list...)
}

func newAddrs(ips iter.Seq[netip.Addr]) addrs {
	n4, n6 := count(ips)
	v4, v6 := make([]uint32, 0, n4), make([][16]byte, 0, n6)
	for ip := range ips {
		if ip.Is4() {
			four := ip.As4()
			v4 = append(v4, binary.BigEndian.Uint32(four[:])) // numbers sort several times faster than arrays
		} else {
			v6 = append(v6, ip.As16())
		}
	}
	slices.Sort(v4)
	v4 = slices.Compact(v4)
	a := addrs{v4: exactly[[4]byte](len(v4))[:len(v4)]}
	for i, n := range v4 {
		binary.BigEndian.PutUint32(a.v4[i][:], n)
	}
	if n6 > 0 {
		a.v6 = sortedOnce(v6, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	}
	return a
}

// count returns the number of addresses of each family.
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

// exactly returns an empty slice with capacity for exactly n values, so that long-lived slices have no
// spare capacity.
func exactly[T any](n int) []T {
	if n == 0 {
		return nil
	}
	return make([]T, 0, n)
}

// node is what one name has: the addresses of the service, the addresses of one host, or the
// targets of SRV records. Each can be empty.
type node struct {
	addrs addrs
	host  []place
	ports []port // of one port name and protocol
	own   bool   // the name of the service itself, which has the targets of all ports
}

// at returns the node at the labels below the name of the service, and whether that name exists.
func (b *block) at(below string) (node, bool) {
	if below == "" {
		return node{addrs: b.addrs(), own: true}, true
	}
	if below[0] == '_' { // no host name or cluster ID begins with an underscore
		return b.atPort(below[1:])
	}
	if b.hosts == nil {
		return node{}, false
	}
	host, ok := b.hosts.at(below)
	return node{host: host}, ok
}

// atPort returns the node of "<port>._<proto>", or of "<proto>" alone, which exists above a port
// and has no record.
func (b *block) atPort(labels string) (node, bool) {
	name, protocol, ok := strings.Cut(labels, "._")
	if !ok {
		_, ok = slices.BinarySearchFunc(b.ports.list, labels, func(p port, protocol string) int { return strings.Compare(p.protocol, protocol) })
		return node{}, ok
	}
	ports := b.portsNamed(name, protocol)
	return node{ports: ports}, len(ports) > 0
}

func (b *block) portsNamed(name, protocol string) []port {
	ports := b.ports.list
	from, ok := slices.BinarySearchFunc(ports, name, func(p port, name string) int { return p.compareNames(name, protocol) })
	if !ok {
		return nil
	}
	return ports[from : from+alike(ports[from:], func(p port) bool { return p.name == name && p.protocol == protocol })]
}

// alike returns how many values at the start of a sorted list equal the first one. Usually there
// are few, and there can be thousands. So it looks at the second value first, then doubles the
// step, and halves the last step.
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
