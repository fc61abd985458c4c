package index

import (
	"math/rand/v2"
	"slices"

	"github.com/miekg/dns"
)

// The size of a record in a message. Its owner is the name of the question, or an earlier target: a
// pointer of two bytes.
const (
	sizeA    = 2 + 10 + 4
	sizeAAAA = 2 + 10 + 16
	sizeSRV  = 2 + 10 + 6 + 1 // plus the target's name in text: RFC 2782 forbids its compression
)

// maxPointer is the end of the part of a message that a compressed name can point into (RFC 1035
// 4.1.4).
const maxPointer = 1 << 14

// maxName is the length of the longest name in text, its final dot included: 255 bytes in a message (RFC 1035 3.1).
const maxName = 254

// sizeQuestion returns the size of a message's header and question.
func sizeQuestion(qname string) int { return 12 + len(qname) + 1 + 4 }

// some returns n values of a list, or all if there are not more. They are consecutive from a random
// position; the first value follows the last one. So clients that do not repeat the question over
// TCP find all values, each equally often.
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

// fitGlue removes address records that do not fit the message, as whole sets (RFC 2181 9: this is
// no reason for TC). It uses the library's count, as the server does: whether a name is compressed
// depends on its earlier position in the message.
func (a *Answer) fitGlue(q *question) {
	m := dns.Msg{Question: []dns.Question{{Name: q.qname}}, Answer: a.Answer, Extra: a.Additional}
	m.Truncate(q.room + sizeQuestion(q.qname))
	fits := len(m.Extra)
	for 0 < fits && fits < len(a.Additional) && dns.IsRRset(a.Additional[fits-1:fits+1]) {
		fits--
	}
	a.Additional = slices.Clip(a.Additional[:fits])
}
