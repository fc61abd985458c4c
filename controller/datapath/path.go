package datapath

import (
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
	// Dead: the API server is silent, and so are the endpoints that were proven.
	Dead Verdict = "Dead"
)

const (
	// interval is the pause between two connections to one endpoint while the API server answers.
	interval = 30 * time.Second
	// fast is the pause while it is silent, and after a failure of a proven endpoint.
	fast = time.Second
	// threshold is how many failures in a row count, and witness is how many endpoints must have
	// failed that often.
	threshold = 3
	witnesses = 3
	// streak is how long an endpoint must have failed.
	streak = 3 * time.Second
)

// Path is what is known of the way to the endpoints of one cluster. The zero value knows no
// endpoint. All times are from the clock of the caller.
type Path struct {
	targets  map[Target]*target
	silent   time.Time // since when the API server is silent; zero if it answers
	answered time.Time // when an endpoint has accepted a connection last
}

// target is what is known of one endpoint.
type target struct {
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
			kept[at] = &target{}
		}
	}
	p.targets = kept
}

// Heard notes that the API server answers. Failures during its silence do not count any more: an
// endpoint must fail three times from now on.
func (p *Path) Heard() {
	if p.IsSilent() {
		for _, t := range p.targets {
			if !t.answered.IsZero() {
				t.failures = 0
			}
		}
	}
	p.silent = time.Time{}
}

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

// Due returns the endpoint to connect to next, and notes that a connection begins now. While the API
// server is silent, it returns at most sample endpoints in a second, and at least three. First are
// those that answered last, then those that have waited longest, so that a cluster with new pods is
// not taken for dead.
func (p *Path) Due(now time.Time, sample int) (Target, bool) {
	sample = max(sample, witnesses)
	recent := 0
	for _, t := range p.targets {
		if !t.asked.IsZero() && now.Sub(t.asked) < fast {
			recent++
		}
	}
	if p.IsSilent() && recent >= sample {
		return Target{}, false
	}
	for _, at := range p.order(sample) {
		t := p.targets[at]
		if pause := t.pause(p.IsSilent()); !t.waiting && (t.asked.IsZero() || now.Sub(t.asked) >= pause) {
			t.asked, t.waiting = now, true
			return at, true
		}
	}
	return Target{}, false
}

// order returns the endpoints in the order in which they are asked. Half of the sample are those
// that answered last and have not failed often enough: they are asked each second, and can be
// witnesses. Of them, and of the rest, those that have waited longest are first: otherwise one
// witness would never have its turn when many peers share the rate.
func (p *Path) order(sample int) []Target {
	all := slices.SortedFunc(maps.Keys(p.targets), Target.Compare)
	first := 0
	if p.IsSilent() && len(all) > sample {
		slices.SortStableFunc(all, func(a, b Target) int {
			x, y := p.targets[a], p.targets[b]
			if x.failed() != y.failed() {
				return map[bool]int{true: 1, false: -1}[x.failed()]
			}
			return y.answered.Compare(x.answered)
		})
		first = max(witnesses, sample/2)
	}
	asked := func(a, b Target) int { return p.targets[a].asked.Compare(p.targets[b].asked) }
	slices.SortStableFunc(all[:first], asked)
	slices.SortStableFunc(all[first:], asked)
	return all
}

// failed reports whether an endpoint has failed often enough to be a witness.
func (t *target) failed() bool { return t.failures >= threshold }

func (t *target) pause(silent bool) time.Duration {
	if silent || t.failures > 0 && !t.answered.IsZero() {
		return fast
	}
	return interval
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
}

// Verdict returns what is known now.
func (p *Path) Verdict(now time.Time) Verdict {
	proven, failed, untried := 0, 0, false
	for _, t := range p.targets {
		untried = untried || t.answered.IsZero() && t.failures == 0
		if t.answered.IsZero() {
			continue
		}
		proven++
		if t.failed() && now.Sub(t.failing) >= streak {
			failed++
		}
	}
	switch {
	case proven == 0 && untried:
		return Checking
	case proven == 0:
		return Unknown
	case !p.IsSilent():
		return Proven
	case failed >= min(witnesses, proven) && now.Sub(p.answered) >= streak:
		return Dead
	case p.answered.After(p.silent) && now.Sub(p.answered) < interval:
		return Cut
	default:
		return Checking
	}
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
		if !t.answered.IsZero() && t.failures == 0 {
			c.Accepting++
		}
	}
	return c
}
