package index

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/miekg/dns"
)

// longFrom is the number of addresses from which an answer is kept. For fewer, making the records
// costs less than the rest of the query. Above longTo, no message has room for all, and each answer
// has different ones.
const (
	longFrom = 16
	longTo   = dns.MaxMsgSize / sizeA
)

// longAnswer contains the A or AAAA records of a headless service. They are made on the first
// question, and then shared by all who ask the same. Making them each time would be most of the
// cost of such a query, and garbage.
//
// CoreDNS' plugins copy records before they change them, because the file plugin shares its records
// too (loadbalance.go of CoreDNS 1.15.0, roundRobin). The slice has no spare capacity, so that a
// plugin that appends does not change another client's answer (the server appends an OPT record).
type longAnswer struct {
	owner string
	ttl   uint32
	rrs   []dns.RR
}

// longAnswers keeps the last one of each address family, for the zone and TTL of the last question.
// If a server has two busy zones with the same imports, the records are made as often as without
// it.
type longAnswers struct{ a, aaaa atomic.Pointer[longAnswer] }

// get returns the records of the addresses, all of one family. The owner is in lower case:
// otherwise a resolver that randomises the case of each question would replace the records that
// others ask for.
func (l *longAnswers) get(owner string, ttl uint32, qtype uint16, of addrs) []dns.RR {
	last := &l.a
	if qtype == dns.TypeAAAA {
		last = &l.aaaa
	}
	if kept := last.Load(); kept != nil && kept.owner == owner && kept.ttl == ttl {
		return kept.rrs
	}
	made := &longAnswer{strings.Clone(owner), ttl, nil}
	made.rrs = slices.Clip(recordsOf(made.owner, ttl, of))
	last.Store(made)
	return made.rrs
}
