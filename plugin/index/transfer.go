package index

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Transfer lists the whole zone for a secondary server, as AXFR does: the SOA record, every other
// record once, and the SOA record again (RFC 5936 2.2). The records are those of Lookup, made by
// the same functions. They come in small parts. No part is empty, because CoreDNS v1.12.3 does not
// expect an empty one.
func (x *Index) Transfer(z *Zone) iter.Seq[[]dns.RR] {
	return func(yield func([]dns.RR) bool) {
		soa := z.soa(z.Name, x.serial, z.TTL)
		if !yield(append(soa, z.fixed()...)) {
			return
		}
		for _, key := range x.keys() {
			if !x.services.get(key).transfer(string(key)+".svc."+z.Name, z.TTL, yield) {
				return
			}
		}
		yield(soa[:1])
	}
}

// IsCurrent reports whether a secondary server with that serial is up to date (RFC 1995 2, in the
// arithmetic of RFC 1982).
func (x *Index) IsCurrent(serial uint32) bool { return int32(serial-x.serial) >= 0 }

// fixed returns the records that a zone has without any import, besides its SOA.
func (z *Zone) fixed() []dns.RR {
	return slices.Concat(z.ns(z.Name), z.server("ns.dns."+z.Name), z.version("dns-version."+z.Name))
}

func (x *Index) keys() []Key {
	keys := x.services.keys()
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Namespace(), b.Namespace()), strings.Compare(string(a), string(b)))
	})
	return keys
}

// partSize is the largest number of records in a part of a transfer.
const partSize = 500

// transfer lists a service's records, in parts of one name and type. It leaves out names that are
// too long for a message, which cannot be queried.
func (b *block) transfer(service string, ttl uint32, yield func([]dns.RR) bool) bool {
	if !b.transferAddresses(service, ttl, yield) || !b.transferSRV(&node{own: true}, service, service, ttl, yield) {
		return false
	}
	for rest := b.ports.list; len(rest) > 0; {
		ports := b.portsNamed(rest[0].name, rest[0].protocol)
		owner := "_" + rest[0].name + "._" + rest[0].protocol + "." + service
		if !b.transferSRV(&node{ports: ports}, owner, service, ttl, yield) {
			return false
		}
		rest = rest[len(ports):]
	}
	return b.hosts.transfer(service, ttl, yield)
}

func (b *block) transferAddresses(service string, ttl uint32, yield func([]dns.RR) bool) bool {
	if len(service) > maxName {
		return true
	}
	all := b.addrs()
	for part := range slices.Chunk(all.v4, partSize) {
		if !yield(recordsOf(service, ttl, addrs{v4: part})) {
			return false
		}
	}
	for part := range slices.Chunk(all.v6, partSize) {
		if !yield(recordsOf(service, ttl, addrs{v6: part})) {
			return false
		}
	}
	return true
}

// transferSRV lists SRV records without the additional section: a transfer contains those records
// under the targets' own names.
func (b *block) transferSRV(n *node, owner, service string, ttl uint32, yield func([]dns.RR) bool) bool {
	if len(owner) > maxName {
		return true
	}
	var w walk
	w.start(b, n, false, math.MaxInt)
	s := srv{block: b, service: service, ttl: ttl, weight: w.weight()}
	for {
		list, _ := s.take(&w, nil, partSize, math.MaxInt)
		if len(list) == 0 {
			return true
		}
		if !yield(s.records(owner, list)) {
			return false
		}
	}
}

// transfer lists the addresses of each host; h may be nil.
func (h *hosts) transfer(service string, ttl uint32, yield func([]dns.RR) bool) bool {
	for host := range h.all() {
		owner := h.name(host[0]) + "." + service
		if len(owner) > maxName {
			continue
		}
		for part := range slices.Chunk(host, partSize) {
			v4, v6 := h.families(part)
			if !yield(h.records(owner, ttl, v4, v6)) {
				return false
			}
		}
	}
	return true
}

// all yields the endpoints of each host in turn; h may be nil.
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
