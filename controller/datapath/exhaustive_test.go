package datapath

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

var depth = flag.Int("depth", 9, "how many events come one after the other in TestEveryOrderOfEvents: 11 are ten million events, in a minute and a half")

// TestEveryOrderOfEvents plays all orders of the events of a cluster with three endpoints, in steps of a second, up to a depth. In each state,
// and after each event:
//
//   - Cut is never Dead: with an accepted connection, a silent cluster is not Dead before it has failed for three seconds.
//   - While the API server answers, a cluster is neither Cut nor Dead.
//   - One failed connection is no proof, nor are three within less than three seconds.
//   - A return ends, a minute after the API server has answered at the latest.
//   - A state depends on what is known, and not on how it came to be known.
func TestEveryOrderOfEvents(t *testing.T) {
	at := targets(3)
	first := path{now: start}
	first.Follow(at)
	seen, layer, tried := map[string]bool{first.key(): true}, []path{first}, 0
	for range *depth {
		var next []path
		for _, was := range layer {
			for _, e := range events(at) {
				is := was.clone()
				e.do(&is)
				tried++
				if fault := is.fault(was, e.name); fault != "" {
					t.Fatalf("after %s, %s: %s", is.story, e.name, fault)
				}
				if key := is.key(); !seen[key] {
					seen[key] = true
					is.story = was.story + ", " + e.name
					next = append(next, is)
				}
			}
		}
		layer = next
	}
	t.Logf("%d events in %d states", tried, len(seen))
}

// path is a Path with its clock, and with what has really happened.
type path struct {
	Path
	now      time.Time
	accepted time.Time // the last connection
	refused  int       // connections since then
	answers  time.Time // since when the API server answers; zero while it is silent
	story    string
}

func (p *path) clone() path {
	c := *p
	c.targets = make(map[Target]*target, len(p.targets))
	for at, t := range p.targets {
		one := *t
		c.targets[at] = &one
	}
	return c
}

// key is all that matters later: times as ages, of which long ones are equal.
func (p *path) key() string {
	age := func(at time.Time) int {
		if at.IsZero() {
			return -1
		}
		return int(min(p.now.Sub(at), 2*time.Minute).Seconds())
	}
	var text strings.Builder
	for _, at := range slices.SortedFunc(maps.Keys(p.targets), Target.Compare) {
		t := p.targets[at]
		fmt.Fprintf(&text, "%d %d %d %d;", age(t.asked), age(t.answered), min(t.failures, threshold), age(t.failing))
	}
	fmt.Fprintf(&text, "%d %d %t %d %t %d %d", age(p.silent), age(p.answered), p.returning, age(p.heard), p.restored, age(p.accepted), min(p.refused, threshold))
	return text.String()
}

const answers = "the API server answers"

type pathEvent struct {
	name string
	do   func(*path)
}

func events(all []Target) []pathEvent {
	connect := func(at Target, accepted bool) func(*path) {
		return func(p *path) {
			p.targets[at].asked, p.targets[at].waiting = p.now, true
			p.Answer(at, accepted, p.now)
			if p.refused++; accepted {
				p.accepted, p.refused = p.now, 0
			}
		}
	}
	e := []pathEvent{
		{answers, func(p *path) {
			if p.Heard(p.now); p.answers.IsZero() {
				p.answers = p.now
			}
		}},
		{"it is silent", func(p *path) { p.Silent(p.now); p.answers = time.Time{} }},
		{"a second passes", func(p *path) { p.now = p.now.Add(time.Second) }},
		{"a minute passes", func(p *path) { p.now = p.now.Add(time.Minute) }},
	}
	for i, at := range all[:2] { // the third one is never asked: it is as new as the others at first
		e = append(e, pathEvent{fmt.Sprintf("endpoint %d accepts", i), connect(at, true)}, pathEvent{fmt.Sprintf("endpoint %d refuses", i), connect(at, false)})
	}
	return e
}

// fault is what must not be in a state, after an event in another one.
func (p *path) fault(was path, event string) string {
	is := p.Verdict(p.now)
	switch {
	case is != p.Verdict(p.now):
		return "the verdict changes when it is asked for"
	case !p.IsSilent() && (is == Dead || is == Cut):
		return fmt.Sprintf("%s while the API server answers", is)
	case is == Dead && !p.accepted.IsZero() && p.now.Sub(p.accepted) < streak && !was.returning:
		return fmt.Sprintf("dead %v after an accepted connection", p.now.Sub(p.accepted))
	case is == Dead && p.refused < threshold && !p.returning:
		return fmt.Sprintf("dead after %d refused connections", p.refused)
	case event == answers && !was.answers.IsZero() && p.now.Sub(was.answers) >= longestReturn && p.IsReturning():
		return fmt.Sprintf("returning %v after the API server has answered", p.now.Sub(was.answers))
	case is == Cut && p.accepted.IsZero():
		return "cut, and no endpoint ever accepted a connection"
	case is == Proven && p.accepted.IsZero():
		return "proven, and no endpoint ever accepted a connection"
	case p.accepted.Equal(p.now) && p.accepted.After(was.accepted) && p.IsReturning():
		return "returning, and an endpoint has just accepted a connection"
	}
	return ""
}
