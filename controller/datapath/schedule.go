package datapath

import (
	"slices"
	"time"
)

// The bounds of the connections to the endpoints of all clusters together.
const (
	baselineRate = 30 // a second, while the API servers answer, and for checks
	silentRate   = 68 // a second, to the endpoints of silent clusters
	mostAsked    = 32 // a second, to a silent cluster
	// MaxConnecting is the maximum number of connections to one cluster at a time.
	MaxConnecting = 64
)

// The kinds of connections.
const (
	answering = iota // to a cluster whose API server answers
	checking         // to an endpoint that is checked
	silent           // to a cluster whose API server is silent
	kinds
)

// Way is what is connected to of one cluster.
type Way struct {
	Path
	Checks     Checks
	Cluster    string
	connecting int
	turn, last [kinds]time.Time // when it should get the next connection of each kind, and when it got the last one
}

// Schedule decides which connection is made next, and when. The zero value has no cluster.
type Schedule struct {
	ways []*Way
	free [kinds]time.Time // when the rate of a kind permits a connection
}

// Connection is a connection to make. Without a Name, it is not for a check.
type Connection struct {
	Endpoint
	*Way
}

// Add adds a cluster.
func (s *Schedule) Add(w *Way) {
	s.ways = append(s.ways, w)
	s.Update(w)
}

// Remove removes a cluster.
func (s *Schedule) Remove(w *Way) {
	s.ways = slices.DeleteFunc(s.ways, func(other *Way) bool { return other == w })
}

// Update has to be called after each change of a Way. Clusters whose endpoints are due take turns, so that one with many
// does not delay the others.
func (s *Schedule) Update(w *Way) {
	w.turn = [kinds]time.Time{never, never, never}
	if w.connecting < MaxConnecting {
		_, check := w.Checks.next()
		path := answering
		if w.IsSilent() {
			path = silent
		}
		w.turn[checking], w.turn[path] = later(check, w.last[checking]), later(w.next(), w.last[path])
	}
}

// Next returns when a cluster gets a connection, if no other one comes first.
func (s *Schedule) Next(w *Way) time.Time {
	next := never
	for k := range kinds {
		next = earlier(next, later(w.turn[k], s.free[k]))
	}
	return next
}

// first returns the cluster that gets the next connection, and its kind. A heap would save two microseconds, with a hundred
// clusters.
func (s *Schedule) first() (first *Way, of int) {
	none := &Way{turn: [kinds]time.Time{never, never, never}}
	first = none
	for k := range kinds {
		next := none
		for _, w := range s.ways {
			if w.turn[k].Before(next.turn[k]) {
				next = w
			}
		}
		if later(next.turn[k], s.free[k]).Before(later(first.turn[of], s.free[of])) {
			first, of = next, k
		}
	}
	return first, of
}

// Begin returns a connection that is due, and notes that it begins now. If none is, it has no Way, and next is when
// one will be.
func (s *Schedule) Begin(now time.Time) (c Connection, next time.Time) {
	w, k := s.first()
	if next = later(w.turn[k], s.free[k]); next.After(now) {
		return c, next
	}
	due := false
	if k == checking {
		c.Endpoint, due = w.Checks.Due(now)
	} else {
		c.At, due = w.Due(now)
	}
	if !due {
		s.Update(w)
		return s.Begin(now)
	}
	c.Way = w
	w.connecting++
	w.last[k] = now
	if k == silent {
		s.free[silent] = now.Add(time.Second / silentRate)
	} else {
		s.free[answering] = now.Add(time.Second / baselineRate)
		s.free[checking] = s.free[answering]
		s.free[k] = s.free[k].Add(1) // the other one of the two is then first
	}
	s.Update(w)
	return c, next
}

// End notes the result of a connection, or that this host could not try it. It reports whether this changes the
// verdict, or whether the checked endpoint fails.
func (s *Schedule) End(c Connection, accepted, tried bool, now time.Time) (changed bool) {
	before := c.Verdict(now)
	switch check := c.Name.Name != ""; {
	case check && tried:
		changed = c.Checks.Answer(c.Endpoint, accepted)
	case check:
		c.Checks.Forget(c.Endpoint)
	case tried:
		c.Answer(c.At, accepted, now)
		changed = c.Verdict(now) != before
	default:
		c.Forget(c.At)
	}
	c.connecting--
	s.Update(c.Way)
	return changed
}

// never is when something is due that waits for something else.
var never = time.Unix(1<<40, 0)

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
