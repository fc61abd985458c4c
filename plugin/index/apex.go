package index

import (
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

// Version is the schema of the multicluster DNS specification that the zone follows (SPEC 2.2).
const Version = "1.0.0"

// Zone is what a question needs to know about its zone.
//
// If Alias is set, the zone belongs to another plugin, which answers first: the domain of the
// cluster, of the kubernetes plugin. Names in it are answered as in any other zone, except
// dns-version, which describes the schema of the whole zone (SPEC 2.2).
type Zone struct {
	Name        string       // in lower case, with the final dot
	TTL         uint32       // of positive answers, in seconds
	NegativeTTL uint32       // of negative answers, in seconds (RFC 2308)
	Server      []netip.Addr // the addresses of ns.dns.<zone>, this server
	Alias       bool
}

// How often a secondary server asks for the serial, and how long it answers without the primary, in
// seconds. A zone of Services changes all day, so refresh and retry are far lower than in zones
// that people write (RFC 1912 2.2).
const (
	refresh = 30
	retry   = 10
	expire  = 86400
)

// soa returns the zone's SOA record. ttl is the TTL of the record itself. In a negative answer it
// is the negative TTL, because the lower of this TTL and MINIMUM counts (RFC 2308 3, 5). noinline:
// inlined, it would increase the stack of every answer.
//
//go:noinline
func (z *Zone) soa(origin string, serial, ttl uint32) []dns.RR {
	const server, mailbox = "ns.dns.", "hostmaster."
	names := server + origin + mailbox + origin // one allocation, as is the next one
	of := new(struct {
		soa dns.SOA
		rrs [1]dns.RR
	})
	of.soa = dns.SOA{
		Hdr:     header(origin, dns.TypeSOA, ttl),
		Ns:      names[:len(server)+len(origin)],
		Mbox:    names[len(server)+len(origin):],
		Serial:  serial,
		Refresh: refresh,
		Retry:   retry,
		Expire:  expire,
		Minttl:  z.NegativeTTL,
	}
	of.rrs[0] = &of.soa
	return of.rrs[:]
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
