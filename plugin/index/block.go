package index

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// block is all that exists at and below one service's name. It never changes: a new one takes its place. There is one for each
// import, so each of its words counts.
type block struct {
	addrs   addrs    // the service name's own
	ports   []port   // sorted by protocol, then name
	targets []target // of all ports, one port after the other
	own     []target // what an SRV question for the service's own name gets: each target and number once
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

// port is one _<port>._<proto>, which leads to targets[from:to] of its block.
type port struct {
	name, protocol string
	from, to       int32
}

// target is where an SRV record leads: the host whose first endpoint has that place in hosts, or the service itself.
type target struct {
	host   int32
	number uint16
}

const itself int32 = -1

// virtualBlock makes the block of a ClusterSetIP service, which depends on nothing else (SPEC 2.3).
func virtualBlock(s Service) *block {
	b := &block{addrs: newAddrs(s.IPs)}
	targets := map[Port][]target{}
	for _, p := range s.Ports {
		addTarget(targets, p, target{itself, p.Number})
	}
	b.setPorts(targets)
	return b
}

// headlessBlock makes the block of a headless service, or nil where no name of it exists: without any ready endpoint (SPEC 2.4.1).
func headlessBlock(parts []*Slice) *block {
	var all []netip.Addr
	for _, s := range parts {
		for _, e := range s.Endpoints {
			all = append(all, e.Addr)
		}
	}
	if len(all) == 0 {
		return nil
	}
	b := &block{addrs: newAddrs(all)}
	hosts, targets := newHosts(parts)
	b.hosts = hosts
	b.setPorts(targets)
	return b
}

// addTarget groups targets by port name and protocol; the number is the target's.
func addTarget(targets map[Port][]target, p Port, t target) {
	p.Number = 0
	targets[p] = append(targets[p], t)
}

func (b *block) setPorts(targets map[Port][]target) {
	keys := make([]Port, 0, len(targets))
	for key := range targets {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, Port.compare)
	b.ports = room[port](len(keys))
	var all []target
	for _, key := range keys {
		from := int32(len(all))
		all = append(all, sortedTargets(targets[key])...)
		b.ports = append(b.ports, port{key.Name, key.Protocol, from, int32(len(all))})
	}
	b.targets = append(room[target](len(all)), all...)
	b.own = b.targets
	if own := sortedTargets(all); !slices.Equal(own, b.targets) {
		b.own = append(room[target](len(own)), own...)
	}
}

func sortedTargets(ts []target) []target {
	slices.SortFunc(ts, func(t, u target) int { return cmp.Or(cmp.Compare(t.host, u.host), cmp.Compare(t.number, u.number)) })
	return slices.Compact(ts)
}

func newAddrs(ips []netip.Addr) addrs {
	list := slices.SortedFunc(slices.Values(ips), netip.Addr.Compare) // IPv4 first
	list = slices.Compact(list)
	var a addrs
	n4, n6 := count(slices.Values(list))
	a.v4, a.v6 = room[[4]byte](n4), room[[16]byte](n6)
	for _, ip := range list {
		a.add(ip)
	}
	return a
}

func (a *addrs) add(ip netip.Addr) {
	if ip.Is4() {
		a.v4 = append(a.v4, ip.As4())
	} else {
		a.v6 = append(a.v6, ip.As16())
	}
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

// equal says whether b and c answer every question alike.
func (b *block) equal(c *block) bool {
	if b == nil || c == nil || b == ofManaged || c == ofManaged {
		return b == c
	}
	return b.addrs.equal(c.addrs) && slices.Equal(b.ports, c.ports) && slices.Equal(b.targets, c.targets) && b.hosts.equal(c.hosts)
}

func (a addrs) equal(b addrs) bool { return slices.Equal(a.v4, b.v4) && slices.Equal(a.v6, b.v6) }

// node is what one name has: the addresses of the service, those of one host, or the targets of SRV records; all may be none.
type node struct {
	addrs   addrs
	host    []place
	targets []target
}

// at is the node at the labels below the service's name, and whether that name exists.
func (b *block) at(below string) (node, bool) {
	if below == "" {
		return node{addrs: b.addrs, targets: b.own}, true
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
		return node{}, slices.ContainsFunc(b.ports, func(p port) bool { return p.protocol == labels })
	}
	for _, p := range b.ports {
		if p.name == name && p.protocol == protocol {
			return node{targets: b.targets[p.from:p.to]}, true
		}
	}
	return node{}, false
}
