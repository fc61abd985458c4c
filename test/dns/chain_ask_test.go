package dns

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// form is a way to ask for a name.
type form int

const (
	plain     form = iota // in clusterset.local itself
	rewritten             // in clusterset.example, which rewrite makes clusterset.local
	path                  // as a pod's resolver completes it first, for autopath
)

const (
	zone        = "clusterset.local."
	rewriteZone = "clusterset.example."
	searchEntry = "default.svc.cluster.local."
)

// ask is one client's way to put a question.
type ask struct {
	question
	form    form
	id      uint16
	name    string // as it is asked, in any case
	owner   string // the same in the zone that answers
	network string
	size    uint16 // that the client's EDNS has; 0: it has none
	do      bool
}

// newAsk asks in one of the ways that the chain knows: over UDP mostly, with or without EDNS, in some case.
func (c *chain) newAsk(r *rand.Rand, q question) ask {
	a := ask{question: q, id: uint16(r.Uint32()), network: "udp", form: c.forms[r.IntN(len(c.forms))]}
	if !c.suits(a) {
		a.form = plain
	}
	if r.IntN(8) == 0 {
		a.network = "tcp"
	}
	if a.size = []uint16{0, 1232, 4096}[r.IntN(3)]; a.size > 0 {
		a.do = r.IntN(2) == 0
	}
	switch a.form {
	case plain:
		a.name = c.mixed(r, q.below, zone)
		a.owner = a.name
	case rewritten:
		a.name = c.mixed(r, q.below, rewriteZone)
		a.owner = a.name
	case path:
		// The entry itself in lower case: for NXDOMAIN autopath echoes it so.
		a.name = mixed(r, q.below) + "." + searchEntry
		a.owner = strings.TrimSuffix(a.name, searchEntry) + zone
	}
	return a
}

// suits says whether stock plugins can answer a question in that form.
func (c *chain) suits(a ask) bool {
	switch a.form {
	case rewritten: // rewrite changes the question that dns64, before it, makes its reply to
		return !c.synthesises(a)
	case path: // the cluster's own zone may have nothing of that name, so that autopath gets as far as ours
		return a.service != "" || strings.HasPrefix(a.below, "nobody.")
	}
	return true
}

// mixed is a name in random case. Where both are in the chain, the zone is in lower case: rewrite finds only that in the records
// of a reply, and cache has the case of another client in them.
func (c *chain) mixed(r *rand.Rand, labels, zone string) string {
	if c.caches && slices.Contains(c.forms, rewritten) {
		return below(mixed(r, labels), zone)
	}
	return mixed(r, below(labels, zone))
}

func below(labels, zone string) string { return strings.TrimPrefix(labels+"."+zone, ".") }

// mixed has random letters in upper case, every second time.
func mixed(r *rand.Rand, name string) string {
	if r.IntN(2) == 0 {
		return name
	}
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' && r.IntN(2) == 0 {
			c += 'A' - 'a'
		}
		return c
	}, name)
}

func (a ask) message() *dns.Msg {
	m := new(dns.Msg).SetQuestion(a.name, a.qtype)
	m.Id = a.id
	if a.size > 0 {
		m.SetEdns0(a.size, a.do)
	}
	return m
}

// udpSize is the size of the largest reply of our plugin over UDP: the default of its option udp_size.
const udpSize = 1232

// limit is the size of the largest message that the client takes over UDP.
func (a ask) limit() int { return max(dns.MinMsgSize, int(a.size)) }

// zone is that of the owner, as long as it is in the question.
func (a ask) zone() string {
	if a.form == rewritten {
		return a.owner[len(a.owner)-len(rewriteZone):]
	}
	return a.owner[len(a.owner)-len(zone):]
}

// filled puts the names that the client asked for into the texts of records.
func (a ask) filled(templates []string) []string {
	service := ""
	if a.service != "" {
		service = a.owner[len(a.owner)-len(below(a.service, a.zone())):]
	}
	r := strings.NewReplacer("@", a.owner, "$", service, "~", a.zone())
	texts := make([]string, len(templates))
	for i, t := range templates {
		texts[i] = r.Replace(t)
	}
	return texts
}
