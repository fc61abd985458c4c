package index

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/miekg/dns"
)

// longFrom is how many addresses make an answer a long one. For fewer, making the records costs less than the rest of a query does.
// With more than longTo no message has room for all: each answer has others of them.
const (
	longFrom = 16
	longTo   = dns.MaxMsgSize / sizeA
)

// longAnswer is the A or AAAA records of a headless service, made when they are first asked for and then handed to everybody who asks
// for the same. To make them each time would cost most of such a query, in memory that is garbage at once.
//
// CoreDNS' plugins copy records before they change them, as the file plugin hands out its own too (loadbalance.go of CoreDNS 1.15.0,
// roundRobin). So that none of them appends to another client's answer (the server adds an OPT record), the slice has no spare room.
type longAnswer struct {
	owner string
	ttl   uint32
	rrs   []dns.RR
}

// longAnswers is the last one of each address family, for the zone and TTL that were last asked for: where a server has two zones with the
// same imports, and both are busy, they are made as often as if they were not kept.
type longAnswers struct{ a, aaaa atomic.Pointer[longAnswer] }

// get returns the records of the addresses, all of one family, of which it is asked again and again. The owner is in lower case: a
// resolver that draws the case anew for each question would push out what others ask for.
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
