package index

import "slices"

// maxCompared is the number of targets up to which two blocks are compared target by target.
const maxCompared = 1 << 16

// equal reports whether b and c give the same answer to every question. If both have many targets,
// from different groups of hosts, it returns false. The serial then grows unnecessarily.
func (b *block) equal(c *block) bool {
	if b == nil || c == nil {
		return b == c
	}
	if b.unbuilt != c.unbuilt || !b.addrs().equal(c.addrs()) || !b.hosts.equal(c.hosts) {
		return false
	}
	if (b.ports == c.ports || slices.Equal(b.ports.list, c.ports.list)) && (b.hosts == nil || slices.EqualFunc(b.hosts.groups, c.hosts.groups, group.equal)) {
		return true
	}
	return b.hosts != nil && b.equalTargets(c)
}

func (a addrs) equal(b addrs) bool { return slices.Equal(a.v4, b.v4) && slices.Equal(a.v6, b.v6) }

func (g group) equal(h group) bool {
	return slices.Equal(g.hosts, h.hosts) && slices.Equal(g.numbers, h.numbers)
}

// equalTargets compares the targets of each port. The targets of the service's own name follow from
// them.
func (b *block) equalTargets(c *block) bool {
	if b.atMost()+c.atMost() > maxCompared {
		return false
	}
	rest, other := b.ports.list, c.ports.list
	for len(rest) > 0 && len(other) > 0 {
		ps, qs := b.portsNamed(rest[0].name, rest[0].protocol), c.portsNamed(other[0].name, other[0].protocol)
		if ps[0].compareNames(qs[0].name, qs[0].protocol) != 0 || !b.targetsOf(&node{ports: ps}, nil).equal(c.targetsOf(&node{ports: qs}, nil)) {
			return false
		}
		rest, other = rest[len(ps):], other[len(qs):]
	}
	return len(rest) == len(other)
}

// atMost returns the number of targets of all ports. It counts targets that two groups have in
// common twice.
func (b *block) atMost() (n int) {
	for _, p := range b.ports.list {
		n += len(b.hostsOf(p.group))
	}
	return n
}

func (t targets) equal(u targets) bool {
	for {
		next, ok := t.next()
		other, _ := u.next()
		if next != other || !ok {
			return next == other
		}
	}
}

// equal reports whether both have the same hosts. The names above the hosts follow from them.
func (h *hosts) equal(i *hosts) bool {
	if h == nil || i == nil {
		return h == i
	}
	return slices.EqualFunc(h.places, i.places, func(p, q place) bool {
		return h.endpoint(p).Addr == i.endpoint(q).Addr && h.endpoint(p).Hostname == i.endpoint(q).Hostname &&
			h.slices[p.slice].Cluster == i.slices[q.slice].Cluster
	})
}
