package datapath

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Verdict is what the connections to a cluster's endpoints show.
type Verdict string

const (
	// Unknown: no endpoint is proven.
	Unknown Verdict = "Unknown"
	// Proven: the API server answers, and at least one endpoint is proven.
	Proven Verdict = "Proven"
	// Checking: no endpoint has answered or failed often enough yet. The endpoints are new, or the API
	// server has been silent for a moment.
	Checking Verdict = "Checking"
	// Cut: the API server is silent, and an endpoint answers.
	Cut Verdict = "Cut"
	// Dead: the API server is silent, and so are all endpoints that were proven. Three of them, or all
	// if they are fewer, have failed three times.
	Dead Verdict = "Dead"
	// Returning: the cluster was dead, its API server answers again, and no endpoint has accepted a
	// connection since then, while some can be expected to: they have not failed three times, and longestReturn
	// has not passed. An API server can start long before the pods, and fall silent again.
	Returning Verdict = "Returning"
)

// Verdicts are all of them.
var Verdicts = []Verdict{Unknown, Proven, Checking, Cut, Dead, Returning}

// Interval is the pause between two connections to one endpoint while the API server answers.
const Interval = 30 * time.Second

const (
	// fast is the pause while it is silent, and after a failure of a proven endpoint.
	fast = time.Second
	// threshold is how many failures in a row count, and witnesses is how many endpoints must have
	// failed that often.
	threshold = 3
	witnesses = 3
	// streak is how long an endpoint must have failed.
	streak = 3 * time.Second
	// longestReturn is how long a cluster is Returning at most. Connections that this host cannot make prove nothing.
	longestReturn = time.Minute
)

// Path is what is known of the way to the endpoints of one cluster. The zero value knows no
// endpoint. All times are from the clock of the caller.
type Path struct {
	Interval time.Duration // instead of the constant Interval, if not zero

	targets  map[Target]*target
	silent   time.Time // since when the API server is silent; zero if it answers
	answered time.Time // when an endpoint has accepted a connection last
	// returning: the cluster was dead, and no endpoint has accepted a connection since its API server answered, which was at heard.
	returning bool
	heard     time.Time
	// restored: another process has found it dead.
	restored bool
}

// target is what is known of one endpoint.
type target struct {
	at       Target
	asked    time.Time // begin of the last connection
	waiting  bool      // the last connection has neither been accepted nor failed
	answered time.Time // begin of the last accepted connection; zero if it is not proven
	failures int       // in a row
	failing  time.Time // begin of the first of them
}

// Follow sets the endpoints to connect to. Endpoints that stay keep what is known of them.
func (p *Path) Follow(targets []Target) {
	kept := make(map[Target]*target, len(targets))
	for _, at := range targets {
		if kept[at] = p.targets[at]; kept[at] == nil {
			kept[at] = &target{at: at}
		}
	}
	p.targets = kept
	p.settle()
}

// settle ends the return of a cluster of which no endpoint can be expected to answer.
func (p *Path) settle() {
	open := func(t *target) bool { return !t.answered.IsZero() || !t.failed() }
	if p.returning && !p.IsSilent() && !slices.ContainsFunc(slices.Collect(maps.Values(p.targets)), open) {
		p.back()
	}
}

// back ends the return of a cluster.
func (p *Path) back() { p.returning, p.restored = false, false }

// Restore takes over that a cluster was dead or returning when another process stopped.
func (p *Path) Restore(now time.Time) { p.silent, p.returning, p.restored = now, true, true }

// IsRestored reports whether only another process has found that the cluster is dead.
func (p *Path) IsRestored() bool { return p.restored }

// Failed reports whether an endpoint has failed often enough to be a witness.
func (p *Path) Failed(at Target) bool { return p.targets[at] != nil && p.targets[at].failed() }

// Heard notes that the API server answers. Failures during its silence do not count any more: an
// endpoint must fail three times from now on.
func (p *Path) Heard(now time.Time) {
	if p.returning && !p.IsSilent() && now.Sub(p.heard) >= longestReturn {
		p.back()
	}
	if p.IsSilent() {
		p.returning, p.heard = p.returning || p.Verdict(now) == Dead, now
		for _, t := range p.targets {
			if !t.answered.IsZero() {
				t.failures = 0
			}
		}
	}
	p.silent = time.Time{}
}

// IsReturning reports whether no endpoint of a dead cluster has accepted a connection yet, or failed often enough since its API server answered.
func (p *Path) IsReturning() bool { return p.returning }

// Silent notes that the API server does not answer.
func (p *Path) Silent(now time.Time) {
	if p.silent.IsZero() {
		p.silent = now
	}
}

// IsSilent reports whether the API server was silent the last time.
func (p *Path) IsSilent() bool { return !p.silent.IsZero() }

// Silence returns for how long the API server has been silent.
func (p *Path) Silence(now time.Time) time.Duration {
	if p.silent.IsZero() {
		return 0
	}
	return now.Sub(p.silent)
}

// failed reports whether an endpoint has failed often enough to be a witness.
func (t *target) failed() bool { return t.failures >= threshold }

// Due returns the endpoint to connect to next, and notes that a connection begins now.
func (p *Path) Due(now time.Time) (at Target, ok bool) {
	if p.next().After(now) {
		return at, false
	}
	var first *target
	order := p.order()
	for _, t := range p.targets {
		if !p.due(t).After(now) && (first == nil || order(t, first) < 0) {
			first = t
		}
	}
	first.asked, first.waiting = now, true
	return first.at, true
}

// next returns when Due returns an endpoint: while the API server is silent, at most mostAsked in a second.
func (p *Path) next() time.Time {
	first, asked := never, []time.Time(nil)
	for _, t := range p.targets {
		if first = earlier(first, p.due(t)); p.IsSilent() {
			asked = append(asked, t.asked)
		}
	}
	if len(asked) >= mostAsked {
		slices.SortFunc(asked, time.Time.Compare)
		return later(first, asked[len(asked)-mostAsked].Add(fast))
	}
	return first
}

// due returns when to connect to an endpoint.
func (p *Path) due(t *target) time.Time {
	switch {
	case t.waiting:
		return never
	case t.asked.IsZero():
		return t.asked
	case p.IsSilent(), p.returning, !t.answered.IsZero() && t.failures > 0:
		return t.asked.Add(fast)
	default:
		return t.asked.Add(cmp.Or(p.Interval, Interval))
	}
}

// order returns the order in which endpoints are asked: those that have waited longest are first, so that each has its
// turn, also when many peers share the rate. During a silence, three that may become witnesses come before all others,
// until there are three. Then come those that have not failed, because one that answers is enough for life, and last
// those that have.
func (p *Path) order() func(a, b *target) int {
	waited := func(a, b *target) int { return cmp.Or(a.asked.Compare(b.asked), a.at.Compare(b.at)) }
	if !p.IsSilent() {
		return waited
	}
	suspects := p.suspects(waited)
	rank := func(t *target) int {
		switch {
		case slices.Contains(suspects, t):
			return 0
		case t.failures == 0:
			return 1
		default:
			return 2
		}
	}
	return func(a, b *target) int { return cmp.Or(rank(a)-rank(b), waited(a, b)) }
}

// suspects are up to three endpoints whose next result matters most: those that have failed most
// often. If there are enough witnesses, only those that have answered during the silence matter,
// because a single lost connection must not end a life.
func (p *Path) suspects(waited func(a, b *target) int) (all []*target) {
	missing := witnesses
	for _, t := range p.targets {
		if t.failed() {
			missing--
		}
	}
	for _, t := range p.targets {
		if t.failures > 0 && !t.failed() && !t.answered.IsZero() && (missing > 0 || t.answered.After(p.silent)) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *target) int { return cmp.Or(b.failures-a.failures, waited(a, b)) })
	return all[:min(witnesses, len(all))]
}

// Forget notes that the connection that Due has begun has shown nothing.
func (p *Path) Forget(at Target) {
	if t := p.targets[at]; t != nil {
		t.waiting = false
	}
}

// Answer notes the result of the connection that Due has begun.
func (p *Path) Answer(at Target, accepted bool, now time.Time) {
	t := p.targets[at]
	if t == nil {
		return // it left meanwhile
	}
	t.waiting = false
	if accepted {
		t.answered, t.failures = t.asked, 0
		p.back()
		if now.After(p.answered) {
			p.answered = now
		}
		return
	}
	if t.failures++; t.failures == 1 {
		t.failing = t.asked
	}
	if t.failed() && !p.IsSilent() {
		t.answered = time.Time{}
	}
	p.settle()
}

// Verdict returns what is known now.
func (p *Path) Verdict(now time.Time) Verdict {
	n := p.census(now)
	switch {
	case p.returning && !p.IsSilent():
		return Returning
	case p.returning:
		return Dead
	case n.proven == 0 && n.untried > 0:
		return Checking
	case n.proven == 0:
		return Unknown
	case !p.IsSilent():
		return Proven
	case n.failing == n.proven && n.witnesses >= min(witnesses, n.proven) && now.Sub(p.answered) >= streak:
		return Dead
	case p.answered.After(p.silent) && now.Sub(p.answered) < cmp.Or(p.Interval, Interval):
		return Cut
	default:
		return Checking
	}
}

// census counts endpoints: those that are proven, of these those that fail, and of these those that
// have failed often and long enough; and those of which nothing is known.
type census struct{ proven, failing, witnesses, untried int }

func (p *Path) census(now time.Time) (n census) {
	for _, t := range p.targets {
		switch {
		case t.answered.IsZero() && t.failures == 0:
			n.untried++
		case t.answered.IsZero():
		case t.failures == 0:
			n.proven++
		default:
			n.proven++
			n.failing++
			if t.failed() && now.Sub(t.failing) >= streak {
				n.witnesses++
			}
		}
	}
	return n
}

// Counts describes the endpoints of a Path.
type Counts struct {
	// Targets are the endpoints that are connected to. Of them, Accepting accepted the last connection.
	Targets, Accepting int
	// Last is when an endpoint accepted a connection last; zero for never.
	Last time.Time
}

// Counts returns what is known of the endpoints.
func (p *Path) Counts() Counts {
	c := Counts{Targets: len(p.targets), Last: p.answered}
	for _, t := range p.targets {
		if !t.answered.IsZero() && t.failures == 0 && !p.returning {
			c.Accepting++
		}
	}
	return c
}
