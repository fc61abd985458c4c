package datapath

import (
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
	w := &world{sample: 16, begun: map[Target]time.Duration{}, ends: map[Target]time.Duration{}, accepts: map[Target]bool{}}
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
			at, due := w.Due(start.Add(w.now), w.sample)
			if !due {
				break
			}
			w.asked = append(w.asked, w.now)
			accepted, after := answers(at)
			w.accepts[at], w.ends[at] = accepted, w.now+after
		}
	}
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
		"no endpoint":                      {0, []step{{false, time.Minute, answer, Unknown}, {true, time.Minute, answer, Unknown}}},
		"answers":                          {5, []step{{false, time.Minute, answer, Proven}}},
		"never answered":                   {5, []step{{false, time.Minute, timeOut, Unknown}, {true, time.Minute, timeOut, Unknown}}},
		"never answered while connected":   {5, []step{{false, time.Minute, timeOut, Unknown}, {true, 5 * time.Second, answer, Cut}, {true, 10 * time.Second, timeOut, Dead}}},
		"silent for a moment":              {5, []step{{false, time.Minute, answer, Proven}, {true, tick, timeOut, Checking}, {false, tick, answer, Proven}}},
		"dead":                             {5, []step{{false, time.Minute, answer, Proven}, {true, 3 * time.Second, timeOut, Checking}, {true, time.Second, timeOut, Checking}, {true, 3 * time.Second, timeOut, Dead}, {true, time.Minute, timeOut, Dead}}},
		"dead, one endpoint":               {1, []step{{false, time.Minute, answer, Proven}, {true, 7 * time.Second, timeOut, Dead}}},
		"dead, at once refused":            {5, []step{{false, time.Minute, answer, Proven}, {true, 2900 * time.Millisecond, refuse, Checking}, {true, 2 * time.Second, refuse, Dead}}},
		"dead, many endpoints":             {64, []step{{false, time.Minute, answer, Proven}, {true, 7 * time.Second, timeOut, Dead}}},
		"cut off":                          {5, []step{{false, time.Minute, answer, Proven}, {true, 2 * time.Second, answer, Cut}, {true, 2 * time.Minute, answer, Cut}}},
		"cut off, one endpoint of many":    {64, []step{{false, time.Minute, answer, Proven}, {true, 20 * time.Second, only(1), Cut}, {true, time.Minute, only(1), Cut}}},
		"cut off, then dead":               {5, []step{{false, time.Minute, answer, Proven}, {true, time.Minute, answer, Cut}, {true, 7 * time.Second, timeOut, Dead}}},
		"dead, then cut off":               {5, []step{{false, time.Minute, answer, Proven}, {true, time.Minute, timeOut, Dead}, {true, 3 * time.Second, answer, Cut}}},
		"dead, then back":                  {5, []step{{false, time.Minute, answer, Proven}, {true, time.Minute, timeOut, Dead}, {false, tick, timeOut, Proven}}},
		"a failed connection is repeated":  {1, []step{{false, 29 * time.Second, answer, Proven}, {false, 2 * time.Second, refuse, Proven}, {false, time.Second, answer, Proven}}},
		"no way to the pods any more":      {5, []step{{false, 29 * time.Second, answer, Proven}, {false, 10 * time.Second, timeOut, Unknown}, {true, time.Minute, timeOut, Unknown}}},
		"a way to the pods again":          {5, []step{{false, time.Minute, refuse, Unknown}, {false, 31 * time.Second, answer, Proven}}},
		"dead a moment before it is noted": {1, []step{{false, 29900 * time.Millisecond, answer, Proven}, {false, 3 * time.Second, timeOut, Proven}, {true, 7 * time.Second, timeOut, Dead}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(c.targets)
			for i, s := range c.steps {
				if s.silent {
					w.Silent(start.Add(w.now))
				} else {
					w.Heard()
				}
				w.run(s.lasts, s.answers)
				if got := w.verdict(); got != s.want {
					t.Fatalf("after step %d: %s, want %s", i, got, s.want)
				}
			}
		})
	}
}

// While the API server is silent, at most sample endpoints are asked in each second. Otherwise each
// is asked every 30 s.
func TestConnectionsAreBounded(t *testing.T) {
	for _, c := range []struct {
		silent         bool
		sample, within int // at most so many in each
		window         time.Duration
		least          int
	}{
		{false, 16, MaxTargets, 29 * time.Second, 4 * MaxTargets},
		{true, 16, 16, 900 * time.Millisecond, 16 * 100},
		{true, 3, 3, 900 * time.Millisecond, 3 * 100},
	} {
		for what, answers := range map[string]func(Target) (bool, time.Duration){"answered": answer, "lost": timeOut, "refused": refuse} {
			w := newWorld(MaxTargets)
			w.sample = c.sample
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

// With so few connections that an endpoint is due again before all witnesses had their turn, each
// witness is asked, and then the other endpoints: one of them answers, and the cluster is cut off.
func TestEachWitnessHasItsTurn(t *testing.T) {
	w := newWorld(16)
	w.sample = witnesses
	for range 5 { // Only some of the endpoints are proven.
		at, _ := w.Due(start.Add(w.now), w.sample)
		w.now += tick
		w.Answer(at, true, start.Add(w.now))
	}
	w.now += 10 * time.Second
	w.Silent(start.Add(w.now))
	asked := 0
	ask := func(answers func(Target) bool) {
		w.now += 1500 * time.Millisecond
		if at, due := w.Due(start.Add(w.now), w.sample); due {
			asked++
			w.now += tick
			w.Answer(at, answers(at), start.Add(w.now))
		}
	}
	for w.verdict() != Dead && asked < 100 {
		ask(func(Target) bool { return false })
	}
	if asked > 2*witnesses*threshold {
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
	left, _ := w.Due(start.Add(w.now), 16)
	w.Follow(targets(1))
	w.Answer(left, true, start.Add(w.now))
	if c := w.Counts(); c.Targets != 1 || c.Accepting != 1 || w.verdict() != Proven {
		t.Errorf("counts: %+v, %s", c, w.verdict())
	}
	w.Follow(nil)
	if w.verdict() != Unknown {
		t.Errorf("without endpoints: %s", w.verdict())
	}
}

// In random histories of a cluster and its API server, a cluster that answered in the last three
// seconds is never dead, and one that was proven is dead after eight seconds of silence of both.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 0))
		n := 1 + random.IntN(MaxTargets)
		w := newWorld(n)
		w.sample = 3 + random.IntN(14)
		serves := func(Target) (bool, time.Duration) { return true, time.Duration(random.IntN(15)) * tick }
		lost := []func(Target) (bool, time.Duration){timeOut, refuse}
		w.run(40*time.Second, serves) // each endpoint is proven
		alive, api := true, true
		quiet := time.Duration(-1) // since when both are silent
		for range 30 {
			if random.IntN(2) == 0 {
				alive = !alive
			}
			if random.IntN(2) == 0 {
				api = !api
			}
			if api {
				w.Heard()
			} else {
				w.Silent(start.Add(w.now))
			}
			answers := serves
			if !alive {
				answers = lost[random.IntN(len(lost))]
			}
			lasts := time.Duration(1+random.IntN(200)) * tick
			was := w.now
			for w.now < was+lasts {
				w.run(tick, answers)
				if alive || api {
					quiet = -1
				} else if quiet < 0 {
					quiet = w.now
				}
				switch got := w.verdict(); {
				case alive && got == Dead && w.now-was > 3*time.Second:
					t.Fatalf("seed %d: an answering cluster is dead at %v", seed, w.now)
				case api && (got == Dead || got == Cut):
					t.Fatalf("seed %d: %s while the API server answers", seed, got)
				case quiet >= 0 && w.now-quiet > 8*time.Second && got != Dead && got != Unknown:
					t.Fatalf("seed %d: %s after %v of silence", seed, got, w.now-quiet)
				}
				if got := w.verdict(); got == Dead {
					if last := w.Counts().Last; start.Add(w.now).Sub(last) < 3*time.Second {
						t.Fatalf("seed %d: dead %v after an answer", seed, start.Add(w.now).Sub(last))
					}
				}
			}
		}
	}
}

func BenchmarkDue(b *testing.B) {
	w := newWorld(MaxTargets)
	w.run(time.Minute, answer)
	w.Silent(start.Add(w.now))
	for b.Loop() {
		w.now += 10 * time.Millisecond
		if at, due := w.Due(start.Add(w.now), 16); due {
			w.Answer(at, false, start.Add(w.now))
		}
	}
	if w.verdict() != Dead {
		b.Error(w.verdict())
	}
}
