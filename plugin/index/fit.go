package index

import (
	"math/rand/v2"
	"slices"

	"github.com/miekg/dns"
)

// What a record takes in a message. Its owner is the name of the question, or a target before it: two bytes that point there.
const (
	sizeA    = 2 + 10 + 4
	sizeAAAA = 2 + 10 + 16
	sizeSRV  = 2 + 10 + 6 + 1 // and the target's name in text: RFC 2782 forbids to compress it
)

// maxPointer is the end of the part of a message that a compressed name can point to (RFC 1035 4.1.4).
const maxPointer = 1 << 14

// maxName is the length of the longest name in text, its final dot included: 255 bytes in a message (RFC 1035 3.1).
const maxName = 254

// sizeQuestion is what a message's header and question take.
func sizeQuestion(qname string) int { return 12 + len(qname) + 1 + 4 }

// some returns n values of a list, or all if there are no more. They follow each other from a random place on, and the first one follows
// the last one: clients that do not ask again over TCP find all values, each as often as any other.
func some[T any](all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	from := rand.IntN(len(all)) //nolint:gosec // to spread clients, not to keep a secret
	if end := from + n; end <= len(all) {
		return all[from:end:end]
	}
	return slices.Clip(append(slices.Clone(all[from:]), all[:n-(len(all)-from)]...))
}

// fitGlue leaves out the address records that do not fit a message, by whole sets (RFC 2181 9: that is no reason for TC). The library
// counts, as the server does: a name is compressed or not by where in the message it stood before.
func (a *Answer) fitGlue(q *question) {
	m := dns.Msg{Question: []dns.Question{{Name: q.qname}}, Answer: a.Answer, Extra: a.Additional}
	m.Truncate(q.room + sizeQuestion(q.qname))
	fits := len(m.Extra)
	for 0 < fits && fits < len(a.Additional) && sameSet(a.Additional[fits-1], a.Additional[fits]) {
		fits--
	}
	a.Additional = slices.Clip(a.Additional[:fits])
}

func sameSet(a, b dns.RR) bool {
	return a.Header().Rrtype == b.Header().Rrtype && a.Header().Name == b.Header().Name
}
