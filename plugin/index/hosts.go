package index

import (
	"slices"
	"strings"
)

// hosts contains the names below a headless service: its endpoints, and the clusters above them. It
// stores positions in the slices, and no copy of their content.
type hosts struct {
	parts   []*Slice
	places  []place // sorted by host, then address, without duplicates; endpoints of an unknown cluster have no host
	groups  []group
	parents []string // the cluster IDs and the names above them: all exist, and none has a record (SPEC 2.4.4); sorted
}

// place is the position of an endpoint: parts[slice].Endpoints[endpoint].
type place struct{ slice, endpoint uint32 }

// group contains the hosts of all slices with the same ports.
type group struct {
	hosts   []int32  // positions of the first endpoint of each host, sorted, without duplicates
	numbers []uint16 // of all ports, sorted, without duplicates
}

// newHosts builds the hosts of a headless service and its ports. Each port has one SRV record per
// ready endpoint (SPEC 2.4.3), except those on standby.
func newHosts(parts []*Slice) (*hosts, []port) {
	h := &hosts{parts: parts, parents: namesAbove(parts)}
	lists, groupOf := portLists(parts)
	h.groups = make([]group, len(lists))
	all := h.endpoints()
	h.places = exactly[place](len(all))
	first := 0 // position of the current host
	for i, p := range all {
		if i > 0 && h.compareNames(all[i-1], p) != 0 {
			first = len(h.places)
		}
		if i == 0 || h.compare(all[i-1], p) != 0 {
			h.places = append(h.places, p)
		}
		if !h.parts[p.slice].Standby {
			h.groups[groupOf[p.slice]].add(int32(first))
		}
	}
	h.places = fitted(h.places)
	var ports []port
	for i, list := range lists {
		h.groups[i].hosts, h.groups[i].numbers = fitted(h.groups[i].hosts), numbersOf(list)
		for _, p := range list {
			ports = append(ports, port{p.Name, p.Protocol, int32(i), p.Number})
		}
	}
	return h, sortedOnce(ports, port.compare)
}

// add adds a host that does not sort before the last one.
func (g *group) add(host int32) {
	if last := len(g.hosts) - 1; last < 0 || g.hosts[last] != host {
		g.hosts = append(g.hosts, host)
	}
}

// portLists returns the distinct port lists of the slices with hosts that are not on standby, sorted,
// and the list of each of these slices.
func portLists(parts []*Slice) (lists [][]Port, of []int) {
	compare := func(a, b []Port) int { return slices.CompareFunc(a, b, Port.compare) }
	for _, s := range parts {
		if s.hasHosts() && !s.Standby && (len(lists) == 0 || !slices.Equal(lists[len(lists)-1], s.Ports)) { // neighbours are usually equal
			lists = append(lists, s.Ports)
		}
	}
	slices.SortFunc(lists, compare)
	lists = slices.CompactFunc(lists, func(a, b []Port) bool { return slices.Equal(a, b) })
	of = make([]int, len(parts))
	for i, s := range parts {
		of[i], _ = slices.BinarySearchFunc(lists, s.Ports, compare)
	}
	return lists, of
}

func (s *Slice) hasHosts() bool { return s.Cluster != "" && len(s.Endpoints) > 0 }

// endpoints returns each endpoint that has a host, sorted. An endpoint of two slices is there
// twice. Each slice is already sorted: merging takes a tenth of the time of sorting all.
func (h *hosts) endpoints() []place {
	var lists [][]place
	for i, s := range h.parts {
		if !s.hasHosts() {
			continue
		}
		list := make([]place, len(s.Endpoints))
		for j := range list {
			list[j] = place{uint32(i), uint32(j)}
		}
		lists = append(lists, list)
	}
	return merged(lists, h.compare)
}

// merged merges several sorted lists into one, pair by pair, until one is left.
func merged[T any](lists [][]T, compare func(a, b T) int) []T {
	for len(lists) > 1 {
		half := lists[:0]
		for pair := range slices.Chunk(lists, 2) {
			half = append(half, mergedPair(pair, compare))
		}
		lists = half
	}
	return slices.Concat(lists...)
}

// mergedPair merges one or two sorted lists.
func mergedPair[T any](pair [][]T, compare func(a, b T) int) []T {
	if len(pair) == 1 {
		return pair[0]
	}
	a, b := pair[0], pair[1]
	merged := make([]T, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compare(a[0], b[0]) <= 0 {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}

// namesAbove returns the cluster IDs and, for an ID of several labels ("east.example", KEP-2149),
// its parents.
func namesAbove(parts []*Slice) []string {
	seen := map[string]struct{}{}
	for _, s := range parts {
		if !s.hasHosts() {
			continue
		}
		for id, ok := s.Cluster, true; ok; _, id, ok = strings.Cut(id, ".") {
			if _, known := seen[id]; known {
				break // its parents exist too
			}
			seen[id] = struct{}{}
		}
	}
	names := make([]string, 0, len(seen))
	for id := range seen {
		names = append(names, id)
	}
	slices.Sort(names)
	return names
}

func (h *hosts) endpoint(p place) *Endpoint { return &h.parts[p.slice].Endpoints[p.endpoint] }

// compare orders by the name of the host, then by address.
func (h *hosts) compare(p, q place) int {
	if byName := h.compareNames(p, q); byName != 0 {
		return byName
	}
	return h.endpoint(p).Addr.Compare(h.endpoint(q).Addr)
}

// compareNames orders by <hostname>, then <clusterid>.
func (h *hosts) compareNames(p, q place) int {
	if byHost := strings.Compare(h.endpoint(p).Hostname, h.endpoint(q).Hostname); byHost != 0 {
		return byHost
	}
	return strings.Compare(h.parts[p.slice].Cluster, h.parts[q.slice].Cluster)
}

func (h *hosts) sameHost(p, q place) bool {
	return h.endpoint(p).Hostname == h.endpoint(q).Hostname && h.parts[p.slice].Cluster == h.parts[q.slice].Cluster
}

// name returns <hostname>.<clusterid>.
func (h *hosts) name(p place) string { return h.endpoint(p).Hostname + "." + h.parts[p.slice].Cluster }

func (h *hosts) nameLen(p place) int {
	return len(h.endpoint(p).Hostname) + 1 + len(h.parts[p.slice].Cluster)
}

// from returns the endpoints of the host whose first endpoint has that position.
func (h *hosts) from(at int) []place {
	rest := h.places[at:]
	if len(rest) == 1 || !h.sameHost(rest[0], rest[1]) { // the usual case
		return rest[:1]
	}
	return rest[:alike(rest, func(p place) bool { return h.sameHost(rest[0], p) })]
}

// at returns the endpoints of a host (none for the name of a cluster), and whether the name exists.
func (h *hosts) at(name string) ([]place, bool) {
	if hostname, cluster, ok := strings.Cut(name, "."); ok {
		first, ok := slices.BinarySearchFunc(h.places, hostname, func(p place, hostname string) int {
			if byHost := strings.Compare(h.endpoint(p).Hostname, hostname); byHost != 0 {
				return byHost
			}
			return strings.Compare(h.parts[p.slice].Cluster, cluster)
		})
		if ok {
			return h.from(first), true
		}
	}
	_, ok := slices.BinarySearch(h.parents, name)
	return nil, ok
}

// families splits the endpoints of one host: those with an IPv4 address come first.
func (h *hosts) families(host []place) (v4, v6 []place) {
	if len(host) == 0 || !h.endpoint(host[0]).Addr.Is4() {
		return nil, host
	}
	if len(host) == 1 {
		return host, nil
	}
	at := alike(host, func(p place) bool { return h.endpoint(p).Addr.Is4() })
	return host[:at], host[at:]
}
