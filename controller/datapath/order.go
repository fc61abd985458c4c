package datapath

import (
	"maps"
	"slices"
	"time"
)

// Due returns the endpoint to connect to next, and notes that a connection begins now. While the API
// server is silent, it returns at most sample endpoints in a second, and at least three.
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
	for _, at := range p.order() {
		t := p.targets[at]
		if !t.waiting && (t.asked.IsZero() || now.Sub(t.asked) >= p.pause(t)) {
			t.asked, t.waiting = now, true
			return at, true
		}
	}
	return Target{}, false
}

// order returns the endpoints in the order in which they are asked. Three that may become witnesses
// are first, until there are three. Then come those that have not failed, because one that answers is
// enough for life, and last those that have. Of each kind, those that have waited longest are first:
// each has its turn, also when many peers share the rate.
func (p *Path) order() []Target {
	all := slices.SortedFunc(maps.Keys(p.targets), Target.Compare)
	slices.SortStableFunc(all, func(a, b Target) int { return p.targets[a].asked.Compare(p.targets[b].asked) })
	if !p.IsSilent() {
		return all
	}
	suspects := p.suspects(all)
	kind := func(at Target) int {
		switch {
		case suspects[at]:
			return 0
		case p.targets[at].failures == 0:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(all, func(a, b Target) int { return kind(a) - kind(b) })
	return all
}

// suspects are up to three endpoints whose next result matters most: those that have failed most
// often. If there are enough witnesses, only those that have answered during the silence matter,
// because a single lost connection must not end a life.
func (p *Path) suspects(all []Target) map[Target]bool {
	var candidates []Target
	missing := witnesses
	for _, at := range all {
		if p.targets[at].failed() {
			missing--
		}
	}
	for _, at := range all {
		t := p.targets[at]
		if t.failures > 0 && !t.failed() && !t.answered.IsZero() && (missing > 0 || t.answered.After(p.silent)) {
			candidates = append(candidates, at)
		}
	}
	slices.SortStableFunc(candidates, func(a, b Target) int { return p.targets[b].failures - p.targets[a].failures })
	suspects := map[Target]bool{}
	for _, at := range candidates[:min(witnesses, len(candidates))] {
		suspects[at] = true
	}
	return suspects
}
