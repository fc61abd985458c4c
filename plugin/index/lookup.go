package index

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Result is the outcome of a Lookup.
type Result uint8

const (
	Success   Result = iota // there are records
	NoData                  // the name exists and has no record of that type (RFC 2308 2.2)
	NameError               // neither the name nor any name below it exists (RFC 2308 2.1, RFC 8020)
)

// Answer is the outcome of a Lookup, with the sections of its reply. Other Answers may share records with a long one, which nobody may
// change; the slices have no spare room.
type Answer struct {
	Result                        Result
	Answer, Authority, Additional []dns.RR
}

// Lookup answers a question for a name in the zone. The records' owner is the name as it was asked, case and all (RFC 1035 7.3
// leaves the case to us; resolvers that randomise it compare it).
func (x *Index) Lookup(z *Zone, qname string, qtype uint16) Answer {
	name := z.Parse(strings.ToLower(qname))
	origin := qname[len(qname)-len(z.Name):]

	a, exists := Answer{}, true
	switch name.Form {
	case FormApex:
		a = z.apex(origin, x.serial, qtype)
	case FormVersion:
		if exists = !z.Guest; exists && qtype == dns.TypeTXT {
			a.Answer = z.version(qname)
		}
	case FormNS:
		a.Answer = ofType(z.server(qname), qtype)
	case FormDNS, FormSvc:
	case FormNamespace:
		_, exists = x.namespaces.get(name.Namespace)
	case FormService:
		a, exists = x.service(z, name, qname, qtype)
	default:
		exists = false
	}
	return a.finish(exists, z, origin, x.serial)
}

// finish settles the result, and adds the SOA that makes a negative answer cacheable (RFC 2308 3).
func (a Answer) finish(exists bool, z *Zone, origin string, serial uint32) Answer {
	switch {
	case !exists:
		a.Result = NameError
	case len(a.Answer) == 0:
		a.Result = NoData
	default:
		return a
	}
	a.Authority = z.soa(origin, serial, z.NegativeTTL)
	return a
}

func (z *Zone) apex(origin string, serial uint32, qtype uint16) Answer {
	switch qtype {
	case dns.TypeSOA:
		return Answer{Answer: z.soa(origin, serial, z.TTL)}
	case dns.TypeNS:
		return Answer{Answer: z.ns(origin), Additional: z.server("ns.dns." + origin)}
	}
	return Answer{}
}

// service answers a name at or below a service.
func (x *Index) service(z *Zone, name Name, qname string, qtype uint16) (Answer, bool) {
	b, ok := x.services.get(name.Service)
	if !ok {
		return Answer{}, false
	}
	n, ok := b.at(name.Below)
	if !ok {
		return Answer{}, false
	}
	var a Answer
	switch qtype {
	case dns.TypeA, dns.TypeAAAA:
		a.Answer = b.addresses(n, qname, z.TTL, qtype)
	case dns.TypeSRV:
		if len(n.targets) == 0 {
			break
		}
		service := qname
		if name.Below != "" {
			service = qname[len(name.Below)+1:]
		}
		a.Answer, a.Additional = recordsSRV(qname, service, z.TTL, b, n.targets)
	}
	return a, true
}

// addresses is the A or AAAA records of a node.
func (b *block) addresses(n node, owner string, ttl uint32, qtype uint16) []dns.RR {
	switch {
	case len(n.host) > 0:
		return ofType(b.hosts.records(owner, ttl, n.host), qtype)
	case qtype == dns.TypeA:
		n.addrs.v6 = nil
	default:
		n.addrs.v4 = nil
	}
	if b.hosts != nil && len(n.addrs.v4)+len(n.addrs.v6) >= longFrom {
		return b.hosts.long.get(owner, ttl, qtype, n.addrs)
	}
	return recordsOf(owner, ttl, n.addrs)
}

func ofType(rrs []dns.RR, qtype uint16) []dns.RR {
	return slices.DeleteFunc(rrs, func(rr dns.RR) bool { return rr.Header().Rrtype != qtype })
}
