package index

import (
	"cmp"
	"hash/maphash"
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// hosts is the names below a headless service: of its endpoints, and of the clusters above them. It holds places in the slices, and
// no second copy of what they say.
type hosts struct {
	slices  []*Slice
	places  []place  // sorted by host, then address, each once; endpoints of an unknown cluster have no host
	table   []uint32 // of hashes: 1 + the first place of a host; 0 where there is none. Its length is a power of 2
	long    longAnswers
	parents []string // the cluster ids, and the names above them: all exist, and none has a record (SPEC 2.4.4); sorted
}

// place is where an endpoint stands: slices[slice].Endpoints[endpoint].
type place struct{ slice, endpoint uint32 }

var hostSeed = maphash.MakeSeed()

// newHosts makes the hosts of a headless service and, for each named port, where it leads: one SRV record per ready endpoint and
// named port (SPEC 2.4.3).
func newHosts(parts []*Slice) (*hosts, map[Port][]target) {
	h := &hosts{slices: parts}
	all := h.endpoints()
	places, targets := make([]place, 0, len(all)), map[Port][]target{}
	first := 0 // place of the present host
	for i, p := range all {
		if i > 0 && h.compareNames(all[i-1], p) != 0 {
			first = len(places)
		}
		if i == 0 || h.compare(all[i-1], p) != 0 {
			places = append(places, p)
		}
		for _, port := range h.slices[p.slice].Ports {
			addTarget(targets, port, target{int32(first), port.Number})
		}
	}
	h.places = append(room[place](len(places)), places...)
	h.parents = namesAbove(parts)
	h.fillTable()
	return h, targets
}

// endpoints is every endpoint that has a host, sorted; one that two slices have is there twice.
func (h *hosts) endpoints() []place {
	var all []place
	for i, s := range h.slices {
		for j := range s.Endpoints {
			if s.Cluster != "" {
				all = append(all, place{uint32(i), uint32(j)})
			}
		}
	}
	slices.SortFunc(all, h.compare)
	return all
}

// namesAbove is the cluster ids, and for an id of several labels ("east.example", KEP-2149) its parents too.
func namesAbove(parts []*Slice) []string {
	names := []string{}
	for _, s := range parts {
		if s.Cluster == "" || len(s.Endpoints) == 0 || slices.Contains(names, s.Cluster) {
			continue
		}
		for id, ok := s.Cluster, true; ok; _, id, ok = strings.Cut(id, ".") {
			names = append(names, id)
		}
	}
	slices.Sort(names)
	return slices.Clip(slices.Compact(names))
}

func (h *hosts) endpoint(p place) *Endpoint { return &h.slices[p.slice].Endpoints[p.endpoint] }

// compare orders by the name of the host, then by address.
func (h *hosts) compare(p, q place) int {
	return cmp.Or(h.compareNames(p, q), h.endpoint(p).Addr.Compare(h.endpoint(q).Addr))
}

// compareNames orders by <hostname>, then <clusterid>.
func (h *hosts) compareNames(p, q place) int {
	return cmp.Or(strings.Compare(h.endpoint(p).Hostname, h.endpoint(q).Hostname), strings.Compare(h.slices[p.slice].Cluster, h.slices[q.slice].Cluster))
}

// fillTable makes the table, at most two thirds full.
func (h *hosts) fillTable() {
	size := 1
	for size*2 < len(h.places)*3 {
		size *= 2
	}
	h.table = make([]uint32, size)
	at := uint32(0)
	for host := range h.all() {
		h.table[h.slot(h.name(host[0]))] = at + 1
		at += uint32(len(host))
	}
}

// all is the endpoints of each host in turn; h may be nil.
func (h *hosts) all() iter.Seq[[]place] {
	return func(yield func([]place) bool) {
		for at := 0; h != nil && at < len(h.places); {
			host := h.from(at)
			if !yield(host) {
				return
			}
			at += len(host)
		}
	}
}

// slot is where a name stands in the table, or would: it is never full.
func (h *hosts) slot(name string) int {
	mask := len(h.table) - 1
	slot := int(maphash.String(hostSeed, name)) & mask
	for h.table[slot] != 0 && !h.named(h.places[h.table[slot]-1], name) {
		slot = (slot + 1) & mask
	}
	return slot
}

// name is <hostname>.<clusterid>.
func (h *hosts) name(p place) string { return h.endpoint(p).Hostname + "." + h.slices[p.slice].Cluster }

func (h *hosts) nameLen(p place) int {
	return len(h.endpoint(p).Hostname) + 1 + len(h.slices[p.slice].Cluster)
}

// named says whether an endpoint's host has that name, without making the name.
func (h *hosts) named(p place, name string) bool {
	hostname := h.endpoint(p).Hostname
	return len(name) == h.nameLen(p) && name[:len(hostname)] == hostname && name[len(hostname)] == '.' && name[len(hostname)+1:] == h.slices[p.slice].Cluster
}

// from is the endpoints of the host whose first one has that place.
func (h *hosts) from(at int) []place {
	end := at + 1
	for end < len(h.places) && h.compareNames(h.places[at], h.places[end]) == 0 {
		end++
	}
	return h.places[at:end]
}

// at is the endpoints of a host, none for a cluster's own name, and whether the name exists.
func (h *hosts) at(name string) ([]place, bool) {
	if first := h.table[h.slot(name)]; first != 0 {
		return h.from(int(first - 1)), true
	}
	_, ok := slices.BinarySearch(h.parents, name)
	return nil, ok
}

// ips is the addresses of one host.
func (h *hosts) ips(host []place) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for _, p := range host {
			if !yield(h.endpoint(p).Addr) {
				return
			}
		}
	}
}

// equal says whether both have the same hosts. The names above follow from these.
func (h *hosts) equal(i *hosts) bool {
	if h == nil || i == nil {
		return h == i
	}
	return slices.EqualFunc(h.places, i.places, func(p, q place) bool {
		return h.endpoint(p).Addr == i.endpoint(q).Addr && h.endpoint(p).Hostname == i.endpoint(q).Hostname &&
			h.slices[p.slice].Cluster == i.slices[q.slice].Cluster
	})
}
