package oracle

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// Zone is what the answers are checked in.
const Zone = "clusterset.local."

// Kind says in which way an answer was wrong.
type Kind string

// The kinds of wrong answers.
const (
	Stale     Kind = "stale"     // true at another time
	Torn      Kind = "torn"      // of parts that do not belong together, or not all of them, or of no state
	Empty     Kind = "empty"     // no record, where there had to be some
	Failure   Kind = "failure"   // such as SERVFAIL
	Malformed Kind = "malformed" // not what a reply to this question looks like
	Backwards Kind = "backwards" // the zone's serial went back
	Silence   Kind = "silence"   // none at all
)

// Kinds are all of them.
var Kinds = []Kind{Stale, Torn, Empty, Failure, Malformed, Backwards, Silence}

// Wrong is an answer that was wrong.
type Wrong struct {
	Kind           Kind
	Question       Question
	Asked, Replied time.Duration
	Reply          string
	Why            string
}

func (w *Wrong) String() string {
	text := fmt.Sprintf("%s: %s %s, asked at %.3f s, answered at %.3f s\nanswer: %s\n%s", w.Kind, w.Question.Name,
		dns.TypeToString[w.Question.Type], w.Asked.Seconds(), w.Replied.Seconds(), w.Reply, w.Why)
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

// Checker checks answers. The zero value is ready.
type Checker struct{ serial atomic.Uint64 } // the largest serial that was answered, above a bit that is set if there was one

// Asked is a question that is being asked.
type Asked struct {
	Question
	at     time.Duration
	oldest []int
	serial uint64
}

// Ask notes that a question is about to be asked.
func (c *Checker) Ask(q Question, now time.Duration) Asked {
	a := Asked{Question: q, at: now, serial: c.serial.Load()}
	for _, o := range q.about.objects() {
		a.oldest = append(a.oldest, o.ask())
	}
	return a
}

// Answered checks the reply to a question, and gives for how long the states that it showed had not been the newest ones when it was
// asked; 0 if they were.
func (c *Checker) Answered(a Asked, m *dns.Msg, now time.Duration) (age time.Duration, wrong *Wrong) {
	wrong = &Wrong{Question: a.Question, Asked: a.at, Replied: now}
	r, err := read(a.Question, m)
	if err != nil {
		wrong.Kind, wrong.Reply, wrong.Why = Malformed, m.String(), err.Error()
		return 0, wrong
	}
	wrong.Reply = r.String()
	if wrong.Kind, wrong.Why = c.checkSerial(a.serial, r); wrong.Kind != "" {
		return 0, wrong
	}
	objects := a.about.objects()
	windows := make([]window, len(objects))
	for i, o := range objects {
		windows[i] = o.window(a.oldest[i], now)
	}
	oldest, newest, ok := fit(a.Question, windows, r)
	if !ok {
		wrong.Kind, wrong.Why = explain(a, windows, r)
		return 0, wrong
	}
	for i, o := range objects {
		age = max(age, o.shown(oldest[i], newest[i], a.at))
	}
	return age, nil
}

// combination is a state of each object.
type combination struct {
	places  []int
	has     []bool
	records int  // how many there are
	shown   bool // the reply has all of them
}

func (c combination) isRight(q Question, r reply) bool {
	if !q.about.exists(c.has) {
		return r.rcode == dns.RcodeNameError && len(r.records) == 0
	}
	return r.rcode == dns.RcodeSuccess && len(r.records) == c.records && c.shown
}

// fit tries all combinations of states, one of each window. Of those that make the reply right, it returns the first and the last place of
// each object, which are the ends of its window where the reply does not depend on it. It is not ok if there is no such combination.
func fit(q Question, windows []window, r reply) (oldest, newest []int, ok bool) {
	all := []combination{{shown: true}}
	for i, w := range windows {
		var longer []combination
		for place, s := range w.states {
			m := q.about.means(q, i, s)
			for _, c := range all {
				longer = append(longer, combination{
					append(slices.Clip(c.places), w.first+place), append(slices.Clip(c.has), m.has), c.records + len(m.records), c.shown && r.shows(m),
				})
			}
		}
		all = longer
	}
	all = slices.DeleteFunc(all, func(c combination) bool { return !c.isRight(q, r) })
	if len(all) == 0 {
		return nil, nil, false
	}
	oldest, newest = slices.Clone(all[0].places), slices.Clone(all[0].places)
	for _, c := range all {
		for i, place := range c.places {
			oldest[i], newest[i] = min(oldest[i], place), max(newest[i], place)
		}
	}
	return oldest, newest, true
}

// Unanswered is what is wrong with a question that had no reply.
func (c *Checker) Unanswered(a Asked, err error, now time.Duration) *Wrong {
	return &Wrong{Silence, a.Question, a.at, now, "none", err.Error()}
}

const hasSerial = 1 << 32

// checkSerial compares as RFC 1982 has it.
func (c *Checker) checkSerial(before uint64, r reply) (Kind, string) {
	if r.serial == nil {
		return "", ""
	}
	got := *r.serial
	if before&hasSerial != 0 && int32(got-uint32(before)) < 0 {
		return Backwards, fmt.Sprintf("the serial was %d in an answer before", uint32(before))
	}
	for {
		most := c.serial.Load()
		if most&hasSerial != 0 && int32(got-uint32(most)) <= 0 || c.serial.CompareAndSwap(most, hasSerial|uint64(got)) {
			return "", ""
		}
	}
}

// explain says in which way a reply is wrong that fits nothing, and what would have been right.
func explain(a Asked, windows []window, r reply) (kind Kind, why string) {
	kind = Torn
	for i, o := range a.about.objects() {
		why += fmt.Sprintf("object %d could be %s\n", i, windows[i])
		for place, s := range o.history() {
			possible := place >= windows[i].first && place < windows[i].first+len(windows[i].states)
			if m := a.about.means(a.Question, i, s); !possible && len(m.records) > 0 && r.shows(m) {
				kind = Stale
			}
		}
	}
	switch {
	case r.rcode != dns.RcodeSuccess && r.rcode != dns.RcodeNameError:
		kind = Failure
	case len(r.records) == 0:
		kind = Empty
	}
	return kind, why
}

// String is the first and the last states.
func (w window) String() string {
	const most = 6
	var text []string
	for i, s := range w.states {
		if i < most/2 || i >= len(w.states)-most/2 {
			text = append(text, s.String())
		} else if i == most/2 {
			text = append(text, "...")
		}
	}
	return strings.Join(text, ", ")
}

func (s State) String() string {
	what := fmt.Sprintf("%d of size %d", s.Number, s.Size)
	if s.Gone {
		what = "gone"
	}
	if s.done == 0 {
		return fmt.Sprintf("[%s, sent at %.3f s]", what, s.began.Seconds())
	}
	return fmt.Sprintf("[%s, sent at %.3f s, done at %.3f s]", what, s.began.Seconds(), s.done.Seconds())
}
