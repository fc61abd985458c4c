package datapath

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// start is the time at which each test begins.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func targets(n int) []Target {
	var all []Target
	for i := range n {
		all = append(all, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 80))
	}
	return all
}

// world is a cluster and the connections to it, on a clock of its own.
type world struct {
	Path
	now     time.Duration
	sample  int
	begun   map[Target]time.Duration
	ends    map[Target]time.Duration
	accepts map[Target]bool
	asked   []time.Duration
}

func newWorld(n int) *world {
	w := &world{sample: mostAsked, begun: map[Target]time.Duration{}, ends: map[Target]time.Duration{}, accepts: map[Target]bool{}}
	w.Follow(targets(n))
	return w
}

const tick = 100 * time.Millisecond

// run lets time pass. answers decides whether an endpoint answers, and after which time.
func (w *world) run(d time.Duration, answers func(Target) (bool, time.Duration)) {
	for end := w.now + d; w.now < end; {
		w.now += tick
		for _, at := range targets(MaxTargets) {
			if until, waiting := w.ends[at]; waiting && until <= w.now {
				delete(w.ends, at)
				w.Answer(at, w.accepts[at], start.Add(w.now))
			}
		}
		for {
			at, due := w.due()
			if !due {
				break
			}
			w.asked = append(w.asked, w.now)
			accepted, after := answers(at)
			w.accepts[at], w.ends[at] = accepted, w.now+after
		}
	}
}

// due returns the endpoint to connect to next. Of all clusters together, as many as sample are connected to in a second.
func (w *world) due() (Target, bool) {
	if n := len(w.asked) - w.sample; n >= 0 && w.now-w.asked[n] < time.Second {
		return Target{}, false
	}
	return w.Due(start.Add(w.now))
}

func (w *world) verdict() Verdict { return w.Verdict(start.Add(w.now)) }

// The ways in which an endpoint can answer: at once, not within the time of a connection, or by a
// refusal.
func answer(Target) (bool, time.Duration)  { return true, 0 }
func timeOut(Target) (bool, time.Duration) { return false, 1500 * time.Millisecond }
func refuse(Target) (bool, time.Duration)  { return false, 0 }
func only(n int) func(Target) (bool, time.Duration) { // the last n of all
	return func(at Target) (bool, time.Duration) {
		if slices.Index(targets(MaxTargets), at) >= MaxTargets-n {
			return true, 0
		}
		return timeOut(at)
	}
}

func TestVerdicts(t *testing.T) {
	type step struct {
		silent  bool
		lasts   time.Duration
		answers func(Target) (bool, time.Duration)
		want    Verdict
	}
	for name, c := range map[string]struct {
		targets int
		steps   []step
	}{
		"no endpoint":                    {0, []step{{false, time.Minute, answer, Unknown}, {true, time.Minute, answer, Unknown}}},
		"answers":                        {5, []step{{false, time.Minute, answer, Proven}}},
		"never answered":                 {5, []step{{false, time.Minute, timeOut, Unknown}, {true, time.Minute, timeOut, Unknown}}},
		"never answered while connected": {5, []step{{false, time.Minute, timeOut, Unknown}, {true, 5 * time.Second, answer, Cut}, {true, 10 * time.Second, timeOut, Dead}}},
		"silent for a moment":            {5, []step{{false, time.Minute, answer, Proven}, {true, tick, timeOut, Checking}, {false, tick, answer, Proven}}},
		"dead":                           {5, []step{{false, time.Minute, answer, Proven}, {true, 3 * time.Second, timeOut, Checking}, {true, time.Second, timeOut, Checking}, {true, 3 * time.Second, timeOut, Dead}, {true, time.Minute, timeOut, Dead}}},
		"dead, one endpoint":             {1, []step{{false, time.Minute, answer, Proven}, {true, 7 * time.Second, timeOut, Dead}}},
		"dead, at once refused":          {5, []step{{false, time.Minute, answer, Proven}, {true, 2900 * time.Millisecond, refuse, Checking}, {true, 2 * time.Second, refuse, Dead}}},
		"dead, many endpoints":           {64, []step{{false, time.Minute, answer, Proven}, {true, 7 * time.Second, timeOut, Dead}}},
		"cut off":                        {5, []step{{false, time.Minute, answer, Proven}, {true, 2 * time.Second, answer, Cut}, {true, 2 * time.Minute, answer, Cut}}},
		"cut off, one endpoint of many":  {64, []step{{false, time.Minute, answer, Proven}, {true, 20 * time.Second, only(1), Cut}, {true, time.Minute, only(1), Cut}}},
		"cut off, then dead":             {5, []step{{false, time.Minute, answer, Proven}, {true, time.Minute, answer, Cut}, {true, 7 * time.Second, timeOut, Dead}}},
		"dead, then cut off":             {5, []step{{false, time.Minute, answer, Proven}, {true, time.Minute, timeOut, Dead}, {true, 3 * time.Second, answer, Cut}}},
		"dead, then back":                {5, []step{{false, time.Minute, answer, Proven}, {true, time.Minute, timeOut, Dead}, {false, tick, timeOut, Returning}, {false, 3 * time.Second, answer, Proven}}},
		"dead, then only the API server": {5, []step{{false, time.Minute, answer, Proven}, {true, time.Minute, timeOut, Dead}, {false, 3 * time.Second, timeOut, Returning}, {false, 5 * time.Second, timeOut, Unknown}}},
		"dead, and the API server answers for a moment": {5, []step{{false, time.Minute, answer, Proven}, {true, time.Minute, timeOut, Dead}, {false, tick, timeOut, Returning}, {true, tick, timeOut, Dead}, {true, time.Minute, timeOut, Dead}, {true, 3 * time.Second, answer, Cut}}},
		"dead, and most were not asked":                 {64, []step{{false, time.Minute, answer, Proven}, {true, 3900 * time.Millisecond, timeOut, Checking}, {true, 5 * time.Second, timeOut, Dead}}},
		"a failed connection is repeated":               {1, []step{{false, 29 * time.Second, answer, Proven}, {false, 2 * time.Second, refuse, Proven}, {false, time.Second, answer, Proven}}},
		"no way to the pods any more":                   {5, []step{{false, 29 * time.Second, answer, Proven}, {false, 10 * time.Second, timeOut, Unknown}, {true, time.Minute, timeOut, Unknown}}},
		"a way to the pods again":                       {5, []step{{false, time.Minute, refuse, Unknown}, {false, 31 * time.Second, answer, Proven}}},
		"dead a moment before it is noted":              {1, []step{{false, 29900 * time.Millisecond, answer, Proven}, {false, 3 * time.Second, timeOut, Proven}, {true, 7 * time.Second, timeOut, Dead}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(c.targets)
			for i, s := range c.steps {
				if s.silent {
					w.Silent(start.Add(w.now))
				} else {
					w.Heard(start.Add(w.now))
				}
				w.run(s.lasts, s.answers)
				if got := w.verdict(); got != s.want {
					t.Fatalf("after step %d: %s, want %s", i, got, s.want)
				}
			}
		})
	}
}

// While the API server is silent, at most mostAsked endpoints are asked in each second. Otherwise each
// is asked every 30 s.
func TestConnectionsAreBounded(t *testing.T) {
	for _, c := range []struct {
		silent bool
		within int // at most so many in each
		window time.Duration
		least  int
	}{
		{false, MaxTargets, 29 * time.Second, 4 * MaxTargets},
		{true, mostAsked, 900 * time.Millisecond, mostAsked * 100},
	} {
		for what, answers := range map[string]func(Target) (bool, time.Duration){"answered": answer, "lost": timeOut, "refused": refuse} {
			w := newWorld(MaxTargets)
			w.sample = MaxTargets
			w.run(time.Minute, answer)
			if c.silent {
				w.Silent(start.Add(w.now))
			}
			w.asked = nil
			w.run(2*time.Minute, answers)
			for i, at := range w.asked {
				if last := i + c.within; last < len(w.asked) && w.asked[last]-at < c.window && (c.silent || what == "answered") {
					t.Fatalf("silent %v, %s: %d connections within %v", c.silent, what, c.within+1, w.asked[last]-at)
				}
			}
			if len(w.asked) < c.least {
				t.Errorf("silent %v, %s: %d connections, want %d", c.silent, what, len(w.asked), c.least)
			}
		}
	}
}

// The pause between two connections to an endpoint that answers is the one that is set.
func TestInterval(t *testing.T) {
	for _, c := range []struct {
		interval time.Duration
		want     int
	}{{0, 4}, {3 * time.Second, 40}} {
		w := newWorld(1)
		w.Interval = c.interval
		if w.run(2*time.Minute, answer); len(w.asked) != c.want {
			t.Errorf("Interval %v: %d connections in two minutes, want %d", c.interval, len(w.asked), c.want)
		}
	}
}

// With so few connections that an endpoint is due again before all witnesses had their turn, each
// witness is asked, and then the other endpoints: one of them answers, and the cluster is cut off.
func TestEachWitnessHasItsTurn(t *testing.T) {
	w := newWorld(16)
	w.sample = witnesses
	for range 5 { // Only some of the endpoints are proven.
		at, _ := w.due()
		w.now += tick
		w.Answer(at, true, start.Add(w.now))
	}
	w.now += 10 * time.Second
	w.Silent(start.Add(w.now))
	asked := 0
	ask := func(answers func(Target) bool) {
		w.now += 1500 * time.Millisecond
		if at, due := w.due(); due {
			asked++
			w.now += tick
			w.Answer(at, answers(at), start.Add(w.now))
		}
	}
	for w.verdict() != Dead && asked < 100 {
		ask(func(Target) bool { return false })
	}
	if asked > witnesses*threshold+16 {
		t.Errorf("%s after %d connections", w.verdict(), asked)
	}
	for asked = 0; w.verdict() != Cut && asked < 100; {
		ask(func(at Target) bool { return at == targets(16)[15] })
	}
	if asked > 6*16 {
		t.Errorf("%s after %d connections", w.verdict(), asked)
	}
}

// Endpoints that stay keep what is known of them, and answers for others are ignored.
func TestEndpointsComeAndGo(t *testing.T) {
	w := newWorld(2)
	w.run(time.Second, answer)
	w.Follow(targets(3))
	if c := w.Counts(); c.Targets != 3 || c.Accepting != 2 || c.Last.IsZero() {
		t.Errorf("counts: %+v", c)
	}
	left, _ := w.Due(start.Add(w.now))
	w.Follow(targets(1))
	w.Answer(left, true, start.Add(w.now))
	if c := w.Counts(); c.Targets != 1 || c.Accepting != 1 || w.verdict() != Proven {
		t.Errorf("counts: %+v, %s", c, w.verdict())
	}
	w.Silent(start.Add(w.now))
	w.run(10*time.Second, timeOut)
	if w.Heard(start.Add(w.now)); w.verdict() != Returning {
		t.Errorf("%s, want Returning", w.verdict())
	}
	w.Follow(nil)
	if w.verdict() != Unknown {
		t.Errorf("without endpoints: %s", w.verdict())
	}
}

// Another process has found the cluster dead. Its endpoints stay away until one of them answers, or all have failed three times while the API
// server answers, or a minute has passed in which this host could not connect to any.
func TestRestore(t *testing.T) {
	for name, c := range map[string]struct {
		answers func(Target) (bool, time.Duration)
		soon    Verdict // after a second
		want    Verdict
	}{"one answers": {answer, Proven, Proven}, "none answers": {timeOut, Returning, Unknown}, "none can be asked": {nil, Returning, Checking}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(0)
			run := func(d time.Duration) {
				if c.answers != nil {
					w.run(d, c.answers)
					return
				}
				for end := w.now + d; w.now < end; w.now += tick {
					if at, due := w.Due(start.Add(w.now)); due {
						w.Forget(at)
					}
					if !w.IsSilent() {
						w.Heard(start.Add(w.now))
					}
				}
			}
			w.Restore(start)
			w.Follow(nil) // this cluster has none of them any more
			w.Silent(start)
			if run(10 * time.Second); w.verdict() != Dead || !w.IsRestored() {
				t.Errorf("silent: %s", w.verdict())
			}
			w.Heard(start.Add(w.now))
			if w.Follow(targets(3)); w.verdict() != Returning {
				t.Errorf("its API server answers: %s", w.verdict())
			}
			if run(time.Second); w.verdict() != c.soon {
				t.Errorf("%s for a second: %s, want %s", name, w.verdict(), c.soon)
			}
			if run(longestReturn); w.verdict() != c.want || w.IsRestored() {
				t.Errorf("%s: %s, want %s", name, w.verdict(), c.want)
			}
		})
	}
}

// In random histories of a cluster, in which each endpoint and the API server come and go for
// themselves:
//
//   - A cluster is never dead in the three seconds after an answer, and never while an endpoint
//     serves that has served since it was proven.
//   - It is dead soon after both are silent, unless no endpoint was proven.
func TestRandomHistories(t *testing.T) {
	longest := time.Duration(0)
	for seed := range uint64(100) {
		h := newHistory(t, seed)
		for range 30 {
			h.change()
			for range 1 + h.random.IntN(200) {
				h.run(tick, h.answer)
				h.judge()
			}
		}
		if h.sample == mostAsked {
			longest = max(longest, h.longest)
		}
	}
	// The API server counts as silent three seconds after its last answer.
	if t.Logf("with %d connections a second, dead %v after both were silent", mostAsked, longest); longest > 7*time.Second {
		t.Errorf("dead %v after both were silent", longest)
	}
}

// history is a world that changes at random.
type history struct {
	*testing.T
	*world
	seed           uint64
	random         *rand.Rand
	n              int
	api            bool
	down           map[Target]bool
	steady         map[Target]time.Duration // since when an endpoint has served and has answered
	slow           time.Duration            // the longest time of an answer
	quiet, longest time.Duration            // since when all are silent, or -1; the longest time until the cluster was dead
	unproven       bool                     // no endpoint was proven when the API server fell silent, and none has answered since
}

func newHistory(t *testing.T, seed uint64) *history {
	random := rand.New(rand.NewPCG(seed, 0))
	h := &history{T: t, seed: seed, random: random, n: 1 + random.IntN(MaxTargets), api: true, down: map[Target]bool{}, steady: map[Target]time.Duration{}, quiet: -1}
	h.world = newWorld(h.n)
	h.sample = []int{3, 10, mostAsked}[random.IntN(3)]
	h.slow = time.Duration(random.IntN(10)) * tick
	h.run(40*time.Second, h.answer) // each endpoint is proven
	return h
}

func (h *history) answer(at Target) (bool, time.Duration) {
	switch {
	case !h.down[at]:
		if _, known := h.steady[at]; !known {
			h.steady[at] = h.now + h.slow + tick
		}
		return true, h.slow
	case h.random.IntN(2) == 0:
		return timeOut(at)
	default:
		return refuse(at)
	}
}

// change lets the API server, all endpoints or some of them come or go.
func (h *history) change() {
	if h.random.IntN(2) == 0 {
		h.api = !h.api
	}
	if h.api {
		h.Heard(start.Add(h.now))
	} else {
		h.Silent(start.Add(h.now))
	}
	what := h.random.IntN(4)
	for _, at := range targets(h.n) {
		switch {
		case what == 0, what == 1 && h.random.IntN(4) > 0:
			h.down[at] = true
		case what == 2, what == 1:
			h.down[at] = false
		}
		if h.down[at] {
			delete(h.steady, at)
		}
	}
}

func (h *history) judge() {
	h.Helper()
	allDown := !slices.ContainsFunc(targets(h.n), func(at Target) bool { return !h.down[at] })
	if h.api {
		h.unproven = h.verdict() != Proven
	} else if h.Counts().Accepting > 0 {
		h.unproven = false
	}
	switch {
	case h.api || !allDown:
		h.quiet = -1
	case h.quiet < 0:
		h.quiet = h.now
	}
	got, since := h.verdict(), h.now-h.quiet
	switch {
	case h.api && (got == Dead || got == Cut):
		h.Fatalf("seed %d: %s while the API server answers", h.seed, got)
	case got == Dead && start.Add(h.now).Sub(h.Counts().Last) < streak:
		h.Fatalf("seed %d: dead %v after an answer", h.seed, start.Add(h.now).Sub(h.Counts().Last))
	case got == Dead && slices.ContainsFunc(slices.Collect(maps.Values(h.steady)), func(since time.Duration) bool { return since < h.now }):
		h.Fatalf("seed %d: dead, and some of %d endpoints serve all the time", h.seed, len(h.steady))
	case h.quiet < 0 || h.unproven && got == Unknown:
	case got != Dead:
		h.longest = max(h.longest, since)
		if each := time.Duration(h.n+2*witnesses) * time.Second / time.Duration(h.sample); since > 7*time.Second+2*each {
			h.Fatalf("seed %d: %s %v after both were silent, with %d endpoints and %d connections a second", h.seed, got, since, h.n, h.sample)
		}
	}
}

func BenchmarkDue(b *testing.B) {
	w := newWorld(MaxTargets)
	w.run(time.Minute, answer)
	w.Silent(start.Add(w.now))
	for b.Loop() {
		w.now += 10 * time.Millisecond
		if at, due := w.Due(start.Add(w.now)); due {
			w.Answer(at, false, start.Add(w.now))
		}
	}
	if w.verdict() != Dead {
		b.Error(w.verdict())
	}
}
