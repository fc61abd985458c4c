package index

import (
	"cmp"
	"slices"
)

// target is the target of an SRV record: the host whose first endpoint has that position in hosts,
// or the service itself.
type target struct {
	host   int32
	number uint16 // never 0
}

const itself int32 = -1

var itselfAlone = []int32{itself}

// maxShares is the number of targets up to which the weight of an SRV record depends on their number.
const maxShares = 50

// run contains every port number of some hosts, ordered by host, then number. It has either
// numbers, or ports with numbers.
type run struct {
	hosts   []int32
	numbers []uint16
	ports   []port
	at      int // the next number of the first host
}

func (r *run) width() int { return len(r.numbers) + len(r.ports) }

func (r *run) target() target {
	if len(r.ports) > 0 {
		return target{r.hosts[0], r.ports[r.at].number}
	}
	return target{r.hosts[0], r.numbers[r.at]}
}

// targets generates the targets of one name, ordered by host, then number, without duplicates. They
// are never stored as a list: their number is the product of two numbers that the author of a
// single object chooses.
type targets struct {
	runs []run // a heap: no run starts before the first one
	last target
}

// targetsOf returns the targets of a node. It appends their runs to an empty list of the caller,
// which can be on its stack.
func (b *block) targetsOf(n *node, runs []run) targets {
	switch {
	case !n.own && len(n.ports) > 0:
		last := n.ports[len(n.ports)-1].group
		runs = roomy(runs, min(len(n.ports), int(last-n.ports[0].group)+1))
		for rest := n.ports; len(rest) > 0; {
			same := sameGroup(rest)
			runs = withRun(runs, b.hostsOf(rest[0].group), nil, rest[:same])
			rest = rest[same:]
		}
	case n.own && b.hosts != nil:
		runs = roomy(runs, len(b.hosts.groups))
		for i := range b.hosts.groups {
			g := &b.hosts.groups[i]
			runs = withRun(runs, g.hosts, g.numbers, nil)
		}
	case n.own:
		runs = withRun(runs, itselfAlone, b.ports.numbers, nil)
	}
	t := targets{runs: runs}
	for at := len(runs)/2 - 1; at >= 0; at-- {
		t.sink(at)
	}
	return t
}

// roomy returns the empty list, or another one if it has no capacity for n.
func roomy(runs []run, n int) []run {
	if n > cap(runs) {
		return make([]run, 0, n)
	}
	return runs
}

// withRun appends a run if it has numbers. noinline: inlined, it would use more of the stack than
// everything else here.
//
//go:noinline
func withRun(runs []run, hosts []int32, numbers []uint16, ports []port) []run {
	if len(numbers)+len(ports) == 0 {
		return runs
	}
	return append(runs, run{hosts: hosts, numbers: numbers, ports: ports})
}

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

// next returns the next target; ok is false after the last one.
func (t *targets) next() (target, bool) {
	for len(t.runs) > 0 {
		next := t.runs[0].target()
		t.advance(1)
		if next != t.last { // two groups can have a host and a number in common
			t.last = next
			return next, true
		}
	}
	return target{}, false
}

// skipHost skips the other targets of the first run's host, if it is the given host.
func (t *targets) skipHost(host int32) {
	for len(t.runs) > 0 && t.runs[0].hosts[0] == host {
		t.advance(t.runs[0].width())
	}
}

// advance moves the first run by n numbers, at most to its next host.
func (t *targets) advance(numbers int) {
	first := &t.runs[0]
	if first.at += numbers; first.at >= first.width() {
		first.at, first.hosts = 0, first.hosts[1:]
	}
	if len(first.hosts) == 0 {
		last := len(t.runs) - 1
		t.runs[0] = t.runs[last]
		t.runs = t.runs[:last]
	}
	if len(t.runs) > 1 {
		t.sink(0)
	}
}

// sink restores the order of the heap below a position.
func (t *targets) sink(at int) {
	for {
		first := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(t.runs); child++ {
			if t.runs[child].target().compare(t.runs[first].target()) < 0 {
				first = child
			}
		}
		if first == at {
			return
		}
		t.runs[at], t.runs[first] = t.runs[first], t.runs[at]
		at = first
	}
}

func (t target) compare(u target) int {
	return cmp.Or(cmp.Compare(t.host, u.host), cmp.Compare(t.number, u.number))
}

// atMost returns an upper bound of the number of targets: a target that two runs have in common
// counts twice.
func (t *targets) atMost() int {
	n := 0
	for i := range t.runs {
		n += len(t.runs[i].hosts) * t.runs[i].width()
	}
	return n
}

// weight returns the weight that gives all targets equal shares, as CoreDNS' kubernetes plugin
// does. Call it before the first target is taken.
func (t *targets) weight() uint16 {
	n := t.atMost()
	if len(t.runs) > 1 {
		counted := targets{runs: slices.Clone(t.runs)}
		for n = 0; n <= maxShares; n++ {
			if _, ok := counted.next(); !ok {
				break
			}
		}
	}
	return uint16(max(1, 100/max(1, n)))
}
