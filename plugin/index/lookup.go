package index

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Result is the outcome of a Lookup.
type Result uint8

const (
	Success   Result = iota // there are records, though perhaps none that fits the message
	NoData                  // the name exists and has no record of that type (RFC 2308 2.2)
	NameError               // neither the name nor any name below it exists (RFC 2308 2.1, RFC 8020)
)

// Answer is the outcome of a Lookup, with the sections of its reply. Other Answers may share records with a long one, which nobody may
// change; the slices have no spare room.
type Answer struct {
	Result                        Result
	Truncated                     bool // there are more records than fit the message (RFC 2181 9)
	Answer, Authority, Additional []dns.RR
}

// Lookup answers a question as LookupIn does, for a message of the largest size.
func (x *Index) Lookup(z *Zone, qname string, qtype uint16) Answer {
	return x.LookupIn(z, qname, qtype, dns.MaxMsgSize)
}

// LookupIn answers a question for a name in the zone, in a message of a size in bytes. It makes no more records than fit, so that no name
// costs more than the message does, however many endpoints and ports it has. The records' owner is the name as it was asked, case and
// all (RFC 1035 7.3 leaves the case to us; resolvers that randomise it compare it).
func (x *Index) LookupIn(z *Zone, qname string, qtype uint16, size int) Answer {
	lower := strings.ToLower(qname)
	q := question{
		zone: z, name: z.Parse(lower), lower: qname == lower,
		qname: qname, origin: qname[len(qname)-len(z.Name):], room: max(0, size-sizeQuestion(qname)),
	}
	a, exists := Answer{}, true
	if qtype != dns.TypeANY {
		a, exists = x.find(&q, qtype)
		return a.finish(exists, z, q.origin, x.serial)
	}
	// One set of records, as RFC 8482 4.1 allows: unlike a HINFO record (4.2), it is true, and a cache may keep it.
	for _, qtype := range anyOf {
		if a, exists = x.find(&q, qtype); !exists || len(a.Answer) > 0 || a.Truncated {
			break
		}
	}
	return a.finish(exists, z, q.origin, x.serial)
}

// anyOf is the types that names have, the one first that a question for all types is answered with.
var anyOf = [...]uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeSOA, dns.TypeTXT}

// question is what is asked for, but for the type.
type question struct {
	zone          *Zone
	name          Name
	qname, origin string // as asked
	lower         bool   // asked without capital letters
	room          int    // bytes that the message has for records
}

// find returns the records of one type, and whether the name exists.
func (x *Index) find(q *question, qtype uint16) (a Answer, exists bool) {
	exists = true
	switch q.name.Form {
	case FormApex:
		a = q.apex(x.serial, qtype)
	case FormVersion:
		if exists = !q.zone.Guest; exists && qtype == dns.TypeTXT {
			a.Answer = q.zone.version(q.qname)
		}
	case FormNS:
		a.Answer = ofType(q.zone.server(q.qname), qtype)
	case FormDNS, FormSvc:
	case FormNamespace:
		_, exists = x.namespaces.get(q.name.Namespace)
	case FormService:
		a, exists = x.service(q, qtype)
	default:
		exists = false
	}
	return a, exists
}

// finish settles the result, and adds the SOA that makes a negative answer cacheable (RFC 2308 3).
func (a Answer) finish(exists bool, z *Zone, origin string, serial uint32) Answer {
	switch {
	case !exists:
		a.Result = NameError
	case len(a.Answer) == 0 && !a.Truncated:
		a.Result = NoData
	default:
		return a
	}
	a.Authority = z.soa(origin, serial, z.NegativeTTL)
	return a
}

func (q *question) apex(serial uint32, qtype uint16) (a Answer) {
	switch qtype {
	case dns.TypeSOA:
		a.Answer = q.zone.soa(q.origin, serial, q.zone.TTL)
	case dns.TypeNS:
		a.Answer, a.Additional = q.zone.ns(q.origin), q.zone.server("ns.dns."+q.origin)
		a.fitGlue(q)
	}
	return a
}

// service answers a name at or below a service.
func (x *Index) service(q *question, qtype uint16) (a Answer, exists bool) {
	b, ok := x.services.get(q.name.Service)
	if !ok {
		return a, false
	}
	n, ok := b.at(q.name.Below)
	if !ok {
		return a, false
	}
	switch qtype {
	case dns.TypeA, dns.TypeAAAA:
		a = b.answerAddresses(n, q, qtype)
	case dns.TypeSRV:
		a = b.answerSRV(n, q)
	}
	return a, true
}

// answerAddresses answers with the A or AAAA records of a node, or with some of them where not all fit. It does not try to give the same
// endpoints for both types (SPEC 2.4.1), as nothing says which addresses are of one endpoint: a client gets all of them over TCP.
func (b *block) answerAddresses(n node, q *question, qtype uint16) (a Answer) {
	v4, v6 := b.hosts.families(n.host)
	fits := q.room / sizeA
	if qtype == dns.TypeA {
		n.addrs.v6, v6 = nil, nil
	} else {
		n.addrs.v4, v4 = nil, nil
		fits = q.room / sizeAAAA
	}
	all := len(n.addrs.v4) + len(n.addrs.v6) + len(v4) + len(v6)
	a.Truncated = all > fits
	switch ttl := q.zone.TTL; {
	case len(n.host) > 0:
		a.Answer = b.hosts.records(q.qname, ttl, some(v4, fits), some(v6, fits))
	case b.hosts != nil && q.lower && longFrom <= all && all <= longTo:
		a.Answer = some(b.hosts.long.get(q.qname, ttl, qtype, n.addrs), fits)
	default:
		a.Answer = recordsOf(q.qname, ttl, addrs{some(n.addrs.v4, fits), some(n.addrs.v6, fits)})
	}
	return a
}

func ofType(rrs []dns.RR, qtype uint16) []dns.RR {
	return slices.DeleteFunc(rrs, func(rr dns.RR) bool { return rr.Header().Rrtype != qtype })
}
