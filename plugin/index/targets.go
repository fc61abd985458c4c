package index

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

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

// walk goes through the targets of one name: group after group, each host of a group with all of its
// port numbers. It begins at any host, and ends before it. A target that two groups have in common
// comes once.
//
// The targets are never stored as a list: their number is the product of two numbers that the author
// of a single object chooses. A walk costs no more than its steps, however many groups there are.
type walk struct {
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
func (w *walk) start(b *block, n *node, random bool) {
	*w = walk{b: b, own: n.own, named: n.ports, over: true} // without n, which so stays on the stack
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
	if !w.isOne() {
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
		same := sameGroup(w.named[at:])
		w.hosts, w.ports, w.next = w.b.hostsOf(w.named[at].group), w.named[at:at+same], at+same
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

// isOne reports whether the name has one group only. Call it before the first step.
func (w *walk) isOne() bool { return w.from == 0 && w.next == w.size() }

// step returns the next target; ok is false after the last one.
func (w *walk) step() (t target, ok bool) {
	for {
		if t, ok = w.any(); !ok || w.known == nil {
			return t, ok
		}
		if _, twice := w.known[t]; !twice {
			w.known[t] = struct{}{}
			return t, true
		}
	}
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

// skip leaves out the other numbers of the last target's host.
func (w *walk) skip() {
	if w.number > 0 {
		w.skipHost()
	}
}

// skipHost goes to the next host.
func (w *walk) skipHost() { w.host, w.number = w.host+1, 0 }

// sameGroup returns how many of the ports, from the first one on, have the same group.
func sameGroup(ports []port) int {
	group := ports[0].group
	if ports[len(ports)-1].group == group {
		return len(ports)
	}
	return slices.IndexFunc(ports, func(p port) bool { return p.group != group })
}

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
