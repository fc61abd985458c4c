package index

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// block is all that exists at and below one service's name. It never changes: a new one takes its place.
type block struct {
	addrs addrs        // the service name's own
	hosts []host       // headless only: sorted by name
	zones []string     // headless only: the cluster ids and the names above them, which exist but have no record; sorted
	ports []portTarget // sorted by protocol, then name
	all   []target     // what an SRV question for the service's own name gets: each target and number once
}

// addrs is a set of addresses, each family sorted.
type addrs struct {
	v4 [][4]byte
	v6 [][16]byte
}

// host is one <hostname>.<clusterid>.
type host struct {
	name  string // both labels, lower case
	addrs addrs
}

// portTarget is one _<port>._<proto>, and where it leads.
type portTarget struct {
	name, protocol string
	targets        []target
}

// target is where an SRV record leads: the host at that place of block.hosts, or the service itself.
type target struct {
	host   int32
	number uint16
}

const itself int32 = -1

// newBlock makes the block of a service, or nil where no name of it exists: a headless service without any ready endpoint
// (SPEC 2.4.1).
func newBlock(in *Input) *block {
	if in == nil {
		return nil
	}
	if in.Service.Type == Headless {
		return headlessBlock(in.Slices)
	}
	b := &block{addrs: newAddrs(in.Service.IPs)}
	targets := map[Port][]target{}
	for _, p := range in.Service.Ports {
		addTarget(targets, p, target{itself, p.Number})
	}
	b.setPorts(targets)
	return b
}

func headlessBlock(slices []Slice) *block {
	all := []netip.Addr{}
	byHost := map[string][]netip.Addr{}
	clusters := map[string]struct{}{}
	for _, s := range slices {
		for _, e := range s.Endpoints {
			all = append(all, e.Addr)
			if s.Cluster != "" {
				name := hostName(e, s.Cluster)
				byHost[name] = append(byHost[name], e.Addr)
				clusters[s.Cluster] = struct{}{}
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	b := &block{addrs: newAddrs(all), zones: namesAbove(clusters)}
	b.setHosts(byHost)
	b.setPorts(hostTargets(b, slices))
	return b
}

func hostName(e Endpoint, cluster string) string {
	if e.Hostname == "" {
		return HostLabel(e.Addr) + "." + cluster
	}
	return e.Hostname + "." + cluster
}

// namesAbove is the cluster ids, and for an id of several labels ("east.example", KEP-2149) its parents too: all of them exist,
// since a host is below them, and none has a record (SPEC 2.4.4).
func namesAbove(clusters map[string]struct{}) []string {
	names := map[string]struct{}{}
	for id := range clusters {
		for ok := true; ok; _, id, ok = strings.Cut(id, ".") {
			names[id] = struct{}{}
		}
	}
	return sortedKeys(names)
}

func (b *block) setHosts(byHost map[string][]netip.Addr) {
	b.hosts = make([]host, 0, len(byHost))
	for _, name := range sortedKeys(byHost) {
		b.hosts = append(b.hosts, host{name, newAddrs(byHost[name])})
	}
}

// hostTargets is, for each named port, the hosts that expose it: one SRV record per ready endpoint and named port (SPEC 2.4.3).
func hostTargets(b *block, slices []Slice) map[Port][]target {
	targets := map[Port][]target{}
	for _, s := range slices {
		for _, e := range s.Endpoints {
			at, ok := b.findHost(hostName(e, s.Cluster))
			if s.Cluster == "" || !ok {
				continue
			}
			for _, p := range s.Ports {
				addTarget(targets, p, target{int32(at), p.Number})
			}
		}
	}
	return targets
}

// addTarget groups targets by port name and protocol; the number is the target's.
func addTarget(targets map[Port][]target, p Port, t target) {
	p.Number = 0
	targets[p] = append(targets[p], t)
}

func (b *block) setPorts(targets map[Port][]target) {
	for port, ts := range targets {
		b.ports = append(b.ports, portTarget{port.Name, port.Protocol, sortedTargets(ts)})
		b.all = append(b.all, ts...)
	}
	slices.SortFunc(b.ports, func(p, q portTarget) int {
		return cmp.Or(strings.Compare(p.protocol, q.protocol), strings.Compare(p.name, q.name))
	})
	if len(b.ports) == 1 {
		b.all = b.ports[0].targets
		return
	}
	b.all = sortedTargets(b.all)
}

func sortedTargets(ts []target) []target {
	slices.SortFunc(ts, func(t, u target) int { return cmp.Or(cmp.Compare(t.host, u.host), cmp.Compare(t.number, u.number)) })
	return slices.Clip(slices.Compact(ts))
}

func newAddrs(list []netip.Addr) addrs {
	var a addrs
	for _, ip := range list {
		if ip.Is4() {
			a.v4 = append(a.v4, ip.As4())
		} else {
			a.v6 = append(a.v6, ip.As16())
		}
	}
	slices.SortFunc(a.v4, func(x, y [4]byte) int { return bytes.Compare(x[:], y[:]) })
	slices.SortFunc(a.v6, func(x, y [16]byte) int { return bytes.Compare(x[:], y[:]) })
	a.v4, a.v6 = slices.Clip(slices.Compact(a.v4)), slices.Clip(slices.Compact(a.v6))
	return a
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// findHost is the place of a host in b.hosts.
func (b *block) findHost(name string) (int, bool) {
	return slices.BinarySearchFunc(b.hosts, name, func(h host, name string) int { return strings.Compare(h.name, name) })
}

// equal says whether b and c answer every question alike. zones follow from the hosts.
func (b *block) equal(c *block) bool {
	if b == nil || c == nil {
		return b == c
	}
	return b.addrs.equal(c.addrs) && slices.Equal(b.all, c.all) &&
		slices.EqualFunc(b.hosts, c.hosts, func(h, i host) bool { return h.name == i.name && h.addrs.equal(i.addrs) }) &&
		slices.EqualFunc(b.ports, c.ports, portTarget.equal)
}

func (p portTarget) equal(q portTarget) bool {
	return p.name == q.name && p.protocol == q.protocol && slices.Equal(p.targets, q.targets)
}

func (a addrs) equal(b addrs) bool { return slices.Equal(a.v4, b.v4) && slices.Equal(a.v6, b.v6) }

// node is what one name has: the records of each type, all of which may be none.
type node struct {
	addrs   addrs
	targets []target
}

// at is the node at the labels below the service's name, and whether that name exists.
func (b *block) at(below string) (node, bool) {
	if below == "" {
		return node{b.addrs, b.all}, true
	}
	if below[0] == '_' { // no host name or cluster id begins so
		return b.atPort(below[1:])
	}
	if i, ok := b.findHost(below); ok {
		return node{addrs: b.hosts[i].addrs}, true
	}
	_, ok := slices.BinarySearch(b.zones, below)
	return node{}, ok
}

// atPort finds "<port>._<proto>", or "<proto>" alone, which exists above a port and has no record.
func (b *block) atPort(labels string) (node, bool) {
	name, protocol, ok := strings.Cut(labels, "._")
	if !ok {
		return node{}, slices.ContainsFunc(b.ports, func(p portTarget) bool { return p.protocol == labels })
	}
	for _, p := range b.ports {
		if p.name == name && p.protocol == protocol {
			return node{targets: p.targets}, true
		}
	}
	return node{}, false
}
