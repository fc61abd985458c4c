package index

import (
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

// Version is the schema of the multicluster DNS specification that the zone follows (SPEC 2.2).
const Version = "1.0.0"

// Zone is what a question needs to know of the zone that it falls in.
//
// A guest's names are answered as a zone's own are, but the zone is another's, who answers first (the cluster's domain, of the
// kubernetes plugin): it has no dns-version of ours, as that names the schema of the whole zone (SPEC 2.2).
type Zone struct {
	Name        string       // in lower case, with the final dot
	TTL         uint32       // of positive answers, in seconds
	NegativeTTL uint32       // of negative answers, in seconds (RFC 2308)
	Server      []netip.Addr // the addresses of ns.dns.<zone>, this server
	Alias       bool
}

// How often a secondary server asks for the serial, and for how long it answers without us, in seconds. A zone of Services changes
// all day, so the first two are far lower than those of zones that people write (RFC 1912 2.2).
const (
	refresh = 30
	retry   = 10
	expire  = 86400
)

// soa is the zone's SOA record. ttl is its own: in a negative answer the negative TTL, as the lower of that and MINIMUM counts
// (RFC 2308 3, 5). Inlined, it would take its part of the stack from every answer.
//
//go:noinline
func (z *Zone) soa(origin string, serial, ttl uint32) []dns.RR {
	return []dns.RR{&dns.SOA{
		Hdr:     header(origin, dns.TypeSOA, ttl),
		Ns:      "ns.dns." + origin,
		Mbox:    "hostmaster." + origin,
		Serial:  serial,
		Refresh: refresh,
		Retry:   retry,
		Expire:  expire,
		Minttl:  z.NegativeTTL,
	}}
}

func (z *Zone) ns(origin string) []dns.RR {
	return []dns.RR{&dns.NS{Hdr: header(origin, dns.TypeNS, z.TTL), Ns: "ns.dns." + origin}}
}

func (z *Zone) version(owner string) []dns.RR {
	return []dns.RR{&dns.TXT{Hdr: header(owner, dns.TypeTXT, z.TTL), Txt: []string{Version}}}
}

func (z *Zone) server(owner string) []dns.RR {
	return recordsOf(owner, z.TTL, newAddrs(slices.Values(z.Server)))
}
