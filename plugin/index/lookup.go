package index

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Result is the outcome of a Lookup.
type Result uint8

const (
	Success   Result = iota // there are records, although perhaps none that fits the message
	NoData                  // the name exists and has no record of that type (RFC 2308 2.2)
	NameError               // neither the name nor any name below it exists (RFC 2308 2.1, RFC 8020)
)

// Answer is the outcome of a Lookup, with the sections of the reply. The slices have no spare capacity.
type Answer struct {
	Result                        Result
	Truncated                     bool // there are more records than fit the message (RFC 2181 9)
	Answer, Authority, Additional []dns.RR
}

// Lookup answers a question for a name in the zone, in a message of a size in bytes. It makes no
// more records than fit, so that the cost of a query is bounded by the message, however many
// endpoints and ports the name has. The owner of the records has the spelling of the question (RFC
// 1035 7.3 permits any case; resolvers that randomise it compare it).
func (x *Index) Lookup(z *Zone, qname string, qtype uint16, size int) (a Answer) {
	lower := strings.ToLower(qname)
	q := question{zone: z, qname: qname, origin: qname[len(qname)-len(z.Name):], room: max(0, size-sizeQuestion(qname))}
	q.name = z.Parse(lower)
	var exists bool
	if qtype == dns.TypeANY {
		exists = x.findAny(&a, &q)
	} else {
		exists = x.find(&a, &q, qtype)
	}
	a.finish(exists, &q, x.serial)
	return a
}

// findAny returns one set of records for a question of type ANY, as RFC 8482 4.1 permits. Unlike a
// HINFO record (4.2), it is true, and a cache can keep it.
func (x *Index) findAny(a *Answer, q *question) (exists bool) {
	for _, qtype := range anyOf {
		if exists = x.find(a, q, qtype); !exists || len(a.Answer) > 0 || a.Truncated {
			break
		}
	}
	return exists
}

// anyOf lists the types that names can have. The first that exists answers a question of type ANY.
var anyOf = [...]uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeSOA, dns.TypeTXT}

// question is a question without its type.
type question struct {
	zone          *Zone
	name          Name
	qname, origin string // in the spelling of the question
	room          int    // bytes of the message for records
}

// find adds the records of one type to an empty answer, and reports whether the name exists.
func (x *Index) find(a *Answer, q *question, qtype uint16) bool {
	exists := true
	switch q.name.Kind {
	case KindApex:
		a.apex(q, x.serial, qtype)
	case KindVersion:
		if exists = !q.zone.Alias; exists && qtype == dns.TypeTXT {
			a.Answer = q.zone.version(q.qname)
		}
	case KindNS:
		a.Answer = ofType(q.zone.server(q.qname), qtype)
	case KindDNS, KindSvc:
	case KindNamespace:
		exists = x.namespaces.get(q.name.Namespace) != nil
	case KindService:
		exists = x.service(a, q, qtype)
	default:
		exists = false
	}
	return exists
}

// finish sets the result, and adds the SOA record that lets caches keep a negative answer (RFC 2308
// 3).
func (a *Answer) finish(exists bool, q *question, serial uint32) {
	switch {
	case !exists:
		a.Result = NameError
	case len(a.Answer) == 0 && !a.Truncated:
		a.Result = NoData
	default:
		return
	}
	a.Authority = q.zone.soa(q.origin, serial, q.zone.NegativeTTL)
}

func (a *Answer) apex(q *question, serial uint32, qtype uint16) {
	switch qtype {
	case dns.TypeSOA:
		a.Answer = q.zone.soa(q.origin, serial, q.zone.TTL)
	case dns.TypeNS:
		a.Answer, a.Additional = q.zone.ns(q.origin), q.zone.server("ns.dns."+q.origin)
		a.fitGlue(q)
	}
}

// service answers a name at or below a service.
func (x *Index) service(a *Answer, q *question, qtype uint16) (exists bool) {
	b := x.services.get(q.name.Service)
	return b != nil && b.answer(a, q, qtype)
}

// answer adds the records of one type for the name of the service or a name below it, and reports
// whether that name exists.
func (b *block) answer(a *Answer, q *question, qtype uint16) (exists bool) {
	n, ok := b.at(q.name.Below)
	if !ok {
		return false
	}
	switch qtype {
	case dns.TypeA, dns.TypeAAAA:
		b.answerAddresses(a, q, &n, qtype)
	case dns.TypeSRV:
		b.answerSRV(a, q, &n)
	}
	return true
}

// answerAddresses adds the A or AAAA records of a node, or some of them if not all fit. A and AAAA
// answers need not have the same endpoints (SPEC 2.4.1), because no object contains which addresses
// belong to one endpoint. A client gets all of them over TCP.
func (b *block) answerAddresses(a *Answer, q *question, n *node, qtype uint16) {
	if len(n.host) > 0 {
		b.answerHost(a, q, n.host, qtype)
		return
	}
	of := n.addrs
	if qtype == dns.TypeA {
		a.Truncated = len(of.v4) > q.room/sizeA
		of = addrs{v4: some(of.v4, q.room/sizeA)}
	} else {
		a.Truncated = len(of.v6) > q.room/sizeAAAA
		of = addrs{v6: some(of.v6, q.room/sizeAAAA)}
	}
	a.Answer = recordsOf(q.qname, q.zone.TTL, of)
}

// answerHost is answerAddresses for the endpoints of one host name.
func (b *block) answerHost(a *Answer, q *question, host []place, qtype uint16) {
	v4, v6 := b.hosts.families(host)
	if qtype == dns.TypeA {
		a.Truncated = len(v4) > q.room/sizeA
		v4, v6 = some(v4, q.room/sizeA), nil
	} else {
		a.Truncated = len(v6) > q.room/sizeAAAA
		v4, v6 = nil, some(v6, q.room/sizeAAAA)
	}
	a.Answer = b.hosts.records(q.qname, q.zone.TTL, v4, v6)
}

func ofType(rrs []dns.RR, qtype uint16) []dns.RR {
	return slices.DeleteFunc(rrs, func(rr dns.RR) bool { return rr.Header().Rrtype != qtype })
}
