package index

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// srv contains what the SRV records of one name are made from.
type srv struct {
	*block
	service string // the name of the service, in the spelling of the question
	ttl     uint32
	weight  uint16
}

// answerSRV adds the SRV records of a node (RFC 2782; SPEC 2.3.2, 2.4.3) and, in the additional
// section, the addresses of each target, as far as they fit. The answer section has priority: if it
// is incomplete, there are no addresses.
//
// Its parts use the stack one after another. Each question has its own goroutine, whose stack grows
// by copying: a few hundred bytes more at the deepest point made an answer a quarter slower.
func (b *block) answerSRV(a *Answer, q *question, n *node) {
	s := srv{block: b, service: q.qname, ttl: q.zone.TTL}
	if below := q.name.Below; below != "" {
		s.service = q.qname[len(below)+1:]
	}
	var few [8]target
	list, left := s.first(n, few[:0], q.room)
	if s.weight == 0 {
		return
	}
	a.Answer = s.records(q.qname, list)
	if a.Truncated = left < 0; a.Truncated {
		return
	}
	a.Additional = s.glue(list, a.Answer, left)
	if sizeQuestion(q.qname)+q.room-left > maxPointer {
		a.fitGlue(q)
	}
}

// first takes the targets whose SRV records fit the given number of bytes: all, or if not all fit,
// some from a random one on. It returns the remaining bytes, negative if there are more, and sets the
// weight: 0 if the node has no target.
func (s *srv) first(n *node, list []target, room int) (taken []target, left int) {
	var w walk
	w.start(s.block, n, false, maxSteps)
	s.weight = w.weight()
	if taken, left = s.take(&w, list, math.MaxInt, room); left < 0 {
		w.start(s.block, n, true, maxSteps)
		taken, left = s.take(&w, taken[:0], math.MaxInt, room)
	}
	if w.known != nil { // a host can be in several groups, and its addresses are needed once
		slices.SortFunc(taken, target.compare)
	}
	return taken, left
}

// take takes at most the given number of targets, whose SRV records fit the given number of bytes.
// It returns the remaining bytes, negative if the next record does not fit or the walk was cut. It leaves out a target
// whose name would be too long for a message: that name cannot be queried, and the others must
// still be sent.
func (s *srv) take(w *walk, list []target, most, left int) ([]target, int) {
	if n := min(most, (w.until-w.host)*w.width()); n > cap(list) {
		list = make([]target, 0, min(n, left/(sizeSRV+len(s.service))))
	}
	for len(list) < most {
		t, ok := w.any()
		if !ok {
			if w.isCut() {
				left = -1
			}
			break
		}
		length := s.nameLen(t)
		if length > maxName {
			if w.number > 0 { // the host's other targets have the same name
				w.skipHost()
			}
			continue
		}
		if w.seen(t) {
			continue
		}
		if left -= sizeSRV + length; left < 0 {
			break
		}
		list = append(list, t)
	}
	return list, left
}

// nameLen returns the length of a target's name.
func (s *srv) nameLen(t target) int {
	if t.host == itself {
		return len(s.service)
	}
	return s.hosts.nameLen(s.hosts.places[t.host]) + 1 + len(s.service)
}

// records returns one SRV record for each target. The targets are sorted by host.
func (s *srv) records(owner string, list []target) []dns.RR {
	records := make([]dns.SRV, len(list))
	rrs := make([]dns.RR, len(list))
	var names strings.Builder
	names.Grow(s.namesLen(list))
	for i, t := range list {
		name := s.service
		switch {
		case t.host == itself:
		case i > 0 && t.host == list[i-1].host:
			name = records[i-1].Target
		default:
			name = s.hosts.writeName(&names, s.hosts.places[t.host], s.service)
		}
		records[i] = dns.SRV{Hdr: header(owner, dns.TypeSRV, s.ttl), Weight: s.weight, Port: t.number, Target: name}
		rrs[i] = &records[i]
	}
	return rrs
}

// namesLen returns the length of the names of all targets, which are written into one string.
func (s *srv) namesLen(list []target) (length int) {
	for i, t := range list {
		if t.host != itself && (i == 0 || t.host != list[i-1].host) {
			length += s.nameLen(t)
		}
	}
	return length
}

// writeName writes the full name of a host.
func (h *hosts) writeName(names *strings.Builder, p place, service string) string {
	from := names.Len()
	names.WriteString(h.endpoint(p).Hostname)
	names.WriteByte('.')
	names.WriteString(h.parts[p.slice].Cluster)
	names.WriteByte('.')
	names.WriteString(service)
	return names.String()[from:]
}

// glueThatFits returns how many address records of each family, in the order of the targets, fit
// the given number of bytes as whole sets (RFC 2181 9). The name of each record is a pointer if its
// target is before maxPointer. Beyond it, fewer records fit.
func (s *srv) glueThatFits(list []target, left int) (v4, v6 int) {
	for i, t := range list {
		if i > 0 && t.host == list[i-1].host {
			continue
		}
		n4, n6 := s.addresses(t)
		if left -= n4 * sizeA; left < 0 {
			break
		}
		v4 += n4
		if left -= n6 * sizeAAAA; left < 0 {
			break
		}
		v6 += n6
	}
	return v4, v6
}

// addresses returns the number of addresses of a target, of each family.
func (s *srv) addresses(t target) (v4, v6 int) {
	if t.host == itself {
		all := s.addrs()
		return len(all.v4), len(all.v6)
	}
	four, six := s.hosts.families(s.hosts.from(int(t.host)))
	return len(four), len(six)
}

// glue returns the address records of the targets, as many as fit the given number of bytes.
func (s *srv) glue(list []target, answer []dns.RR, left int) []dns.RR {
	to := newRecords(s.glueThatFits(list, left))
	for i, t := range list {
		if len(to.rrs) == cap(to.rrs) {
			break
		}
		if i > 0 && t.host == list[i-1].host {
			continue
		}
		name := answer[i].(*dns.SRV).Target
		if t.host == itself {
			all := s.addrs()
			to.addAll(name, s.ttl, addrs{all.v4, upTo(cap(to.aaaa), all.v6)})
			continue
		}
		v4, v6 := s.hosts.families(s.hosts.from(int(t.host)))
		s.hosts.addAll(&to, name, s.ttl, v4, upTo(cap(to.aaaa)-len(to.aaaa), v6))
	}
	return to.rrs
}

// upTo returns the whole list if there is space for it, and otherwise nothing.
func upTo[T any](room int, list []T) []T {
	if len(list) > room {
		return nil
	}
	return list
}

// target is the target of an SRV record: the host whose first endpoint has that position in hosts,
// or the service itself.
type target struct {
	host   int32
	number uint16 // never 0
}

func (t target) compare(u target) int {
	return cmp.Or(cmp.Compare(t.host, u.host), cmp.Compare(t.number, u.number))
}

const itself int32 = -1

var itselfAlone = []int32{itself}

// maxWeighted is the number of targets up to which the weight of an SRV record depends on their
// number.
const maxWeighted = 50

// maxSteps is the number of targets that an answer's walk looks at: several times as many as fit the largest
// message. A walk that ends there has found a part of the targets, as one that has filled its message.
const maxSteps = 1 << 12

// walk goes through the targets of one name: group after group, each host of a group with all of its
// port numbers. It begins at any host, and ends before it. A target that two groups have in common
// comes once.
//
// The targets are never stored as a list: their number is the product of two numbers that the author
// of a single object chooses. A walk costs no more than its steps, however many groups there are. The
// steps of an answer are bounded: a great many targets can be the same, or too long for a message.
type walk struct {
	steps int // that are left
	b     *block
	own   bool   // the name is that of the service, which has the targets of all groups
	named []port // otherwise: of one name and protocol
	from  int    // where the first group begins: an index into named or into the groups
	begin int    // the first host of that group
	next  int    // where the next group begins
	over  bool
	// known contains the targets so far. It is nil for a name with one group: that has none twice.
	known map[target]struct{}

	hosts       []int32 // of the current group
	numbers     []uint16
	ports       []port // instead of numbers, if the name is that of a port
	host, until int    // the next host, and the end of the hosts
	number      int    // the next number of that host
}

// start begins a walk at the first host, or at a random one: so clients that do not repeat the
// question over TCP find all targets.
func (w *walk) start(b *block, n *node, random bool, steps int) {
	*w = walk{steps: steps, b: b, own: n.own, named: n.ports, over: true} // without n, which so stays on the stack
	size := w.size()
	if size == 0 {
		return
	}
	w.over = false
	if random {
		w.from = rand.IntN(size) //nolint:gosec // to spread clients, not to keep a secret
		for !w.own && w.from > 0 && w.named[w.from-1].group == w.named[w.from].group {
			w.from--
		}
	}
	w.enter(w.from)
	if w.from > 0 || w.next < size { // several groups
		w.known = map[target]struct{}{}
	}
	if random && w.until > 0 {
		w.begin = rand.IntN(w.until) //nolint:gosec // as above
	}
	w.host = w.begin
}

// size returns the end of the indices of groups.
func (w *walk) size() int {
	switch {
	case !w.own:
		return len(w.named)
	case w.b.hosts != nil:
		return len(w.b.hosts.groups)
	}
	return 1
}

// enter goes to the first host of a group.
func (w *walk) enter(at int) {
	w.next, w.host, w.number = at+1, 0, 0
	switch {
	case !w.own:
		group := w.named[at].group
		w.next = at + alike(w.named[at:], func(p port) bool { return p.group == group })
		w.hosts, w.ports = w.b.hostsOf(group), w.named[at:w.next]
	case w.b.hosts != nil:
		g := &w.b.hosts.groups[at]
		w.hosts, w.numbers = g.hosts, g.numbers
	default:
		w.hosts, w.numbers = itselfAlone, w.b.ports.numbers
	}
	if w.until = len(w.hosts); w.width() == 0 {
		w.until = 0
	}
}

// width returns how many targets each host of the group has.
func (w *walk) width() int { return len(w.numbers) + len(w.ports) }

// isCut reports whether the walk has ended with targets left that it has not looked at.
func (w *walk) isCut() bool { return w.steps < 0 }

// step returns the next target that has not come before; ok is false after the last one.
func (w *walk) step() (t target, ok bool) {
	for {
		if t, ok = w.any(); !ok || !w.seen(t) {
			return t, ok
		}
	}
}

// seen reports whether a target has come before, and notes it.
func (w *walk) seen(t target) bool {
	_, twice := w.known[t]
	if w.known != nil {
		w.known[t] = struct{}{}
	}
	return twice
}

// any is step with targets that have come before.
func (w *walk) any() (t target, ok bool) {
	for w.host == w.until {
		if w.over {
			return target{}, false
		}
		if w.next == w.size() {
			w.next = 0
		}
		w.over = w.next == w.from
		w.enter(w.next)
		if w.over {
			w.until = min(w.until, w.begin)
		}
	}
	if w.steps--; w.isCut() {
		return target{}, false
	}
	t.host = w.hosts[w.host]
	if len(w.ports) > 0 {
		t.number = w.ports[w.number].number
	} else {
		t.number = w.numbers[w.number]
	}
	if w.number++; w.number == w.width() {
		w.skipHost()
	}
	return t, true
}

// skipHost goes to the next host.
func (w *walk) skipHost() { w.host, w.number = w.host+1, 0 }

func (b *block) hostsOf(group int32) []int32 {
	if b.hosts == nil {
		return itselfAlone
	}
	return b.hosts.groups[group].hosts
}

// weight returns the weight that gives all targets of a name equal shares, as CoreDNS' kubernetes
// plugin does, and 0 if it has none. Call it before the first step.
func (w *walk) weight() uint16 {
	count := w.until * w.width()
	if w.known != nil {
		counted := *w
		counted.known = map[target]struct{}{}
		for count = 0; count <= maxWeighted; count++ {
			if _, ok := counted.step(); !ok {
				break
			}
		}
	}
	if count == 0 {
		return 0
	}
	return uint16(max(1, 100/count))
}
