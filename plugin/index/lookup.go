package index

import (
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

// Answer is the outcome of a Lookup, with the sections of its reply. No other Answer shares a record with it.
type Answer struct {
	Result                        Result
	Answer, Authority, Additional []dns.RR
}

// Lookup answers a question for a name in the zone. The records' owner is the name as it was asked, case and all (RFC 1035 7.3
// leaves the case to us; resolvers that randomise it compare it).
func (x *Index) Lookup(z *Zone, qname string, qtype uint16) Answer {
	lower := strings.ToLower(qname)
	origin := qname[len(qname)-len(z.Name):]
	name := ParseName(strings.TrimSuffix(lower[:len(lower)-len(z.Name)], "."))

	a, exists := Answer{}, true
	switch name.Form {
	case FormApex:
		a = z.apex(origin, x.serial, qtype)
	case FormVersion:
		if qtype == dns.TypeTXT {
			a.Answer = z.version(qname)
		}
	case FormNS:
		a.Answer = ofType(z.server(qname), qtype)
	case FormDNS, FormSvc:
	case FormNamespace:
		_, exists = x.namespaces.get(name.Service.Namespace)
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
	case dns.TypeA:
		a.Answer = recordsOf(qname, z.TTL, addrs{v4: n.addrs.v4})
	case dns.TypeAAAA:
		a.Answer = recordsOf(qname, z.TTL, addrs{v6: n.addrs.v6})
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

func ofType(rrs []dns.RR, qtype uint16) []dns.RR {
	var of []dns.RR
	for _, rr := range rrs {
		if rr.Header().Rrtype == qtype {
			of = append(of, rr)
		}
	}
	return of
}
