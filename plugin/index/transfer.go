package index

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Transfer lists the whole zone for a secondary server, as AXFR has it: the SOA record, every other record once, and the SOA again
// (RFC 5936 2.2). The records are those that Lookup answers with, made by the same functions; they come in parts, each small and none
// empty, which CoreDNS v1.12.3 does not expect.
func (x *Index) Transfer(z *Zone) iter.Seq[[]dns.RR] {
	return func(yield func([]dns.RR) bool) {
		soa := z.soa(z.Name, x.serial, z.TTL)
		if !yield(append(soa, z.fixed()...)) {
			return
		}
		for _, key := range x.keys() {
			b, _ := x.services.get(key)
			if !b.transfer(string(key)+".svc."+z.Name, z.TTL, yield) {
				return
			}
		}
		yield(soa[:1])
	}
}

// IsCurrent says whether a secondary that has that serial has all there is (RFC 1995 2, in the arithmetic of RFC 1982).
func (x *Index) IsCurrent(serial uint32) bool { return int32(serial-x.serial) >= 0 }

// fixed is what a zone has besides its SOA, whatever is imported.
func (z *Zone) fixed() []dns.RR {
	return slices.Concat(z.ns(z.Name), z.server("ns.dns."+z.Name), z.version("dns-version."+z.Name))
}

func (x *Index) keys() []Key {
	keys := make([]Key, 0, x.services.n)
	x.services.all(func(key Key, _ *block) { keys = append(keys, key) })
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Namespace(), b.Namespace()), strings.Compare(string(a), string(b)))
	})
	return keys
}

// transfer lists a service's records, one name at a time. Names too long for a message, which nobody can ask for, are left out.
func (b *block) transfer(service string, ttl uint32, yield func([]dns.RR) bool) bool {
	list := func(owner string, rrs []dns.RR) bool { return len(owner) > maxName || len(rrs) == 0 || yield(rrs) }
	if !list(service, recordsOf(service, ttl, b.addrs)) || !list(service, b.srv(service, service, ttl, b.own)) {
		return false
	}
	for _, p := range b.ports {
		owner := "_" + p.name + "._" + p.protocol + "." + service
		if !list(owner, b.srv(owner, service, ttl, b.targets[p.from:p.to])) {
			return false
		}
	}
	for host := range b.hosts.all() {
		owner := b.hosts.name(host[0]) + "." + service
		if !list(owner, b.hosts.records(owner, ttl, host)) {
			return false
		}
	}
	return true
}

// srv is SRV records without the additional section, which a transfer has under the targets' own names.
func (b *block) srv(owner, service string, ttl uint32, targets []target) []dns.RR {
	answer, _ := recordsSRV(owner, service, ttl, b, targets)
	return answer
}
