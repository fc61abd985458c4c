package index

import "slices"

// equal reports whether b and c give the same answer to every question. If the same targets come
// from other groups of hosts, it returns false. The serial then grows unnecessarily.
func (b *block) equal(c *block) bool {
	if b == nil || c == nil {
		return b == c
	}
	if b.unbuilt != c.unbuilt || !b.addrs().equal(c.addrs()) || !b.hosts.equal(c.hosts) {
		return false
	}
	return (b.ports == c.ports || slices.Equal(b.ports.list, c.ports.list)) && (b.hosts == nil || slices.EqualFunc(b.hosts.groups, c.hosts.groups, group.equal))
}

func (a addrs) equal(b addrs) bool { return slices.Equal(a.v4, b.v4) && slices.Equal(a.v6, b.v6) }

func (g group) equal(h group) bool {
	return slices.Equal(g.hosts, h.hosts) && slices.Equal(g.numbers, h.numbers)
}

// equal reports whether both have the same hosts. The names above the hosts follow from them.
func (h *hosts) equal(i *hosts) bool {
	if h == nil || i == nil {
		return h == i
	}
	return slices.EqualFunc(h.places, i.places, func(p, q place) bool {
		return h.endpoint(p).Addr == i.endpoint(q).Addr && h.endpoint(p).Hostname == i.endpoint(q).Hostname &&
			h.parts[p.slice].Cluster == i.parts[q.slice].Cluster
	})
}
