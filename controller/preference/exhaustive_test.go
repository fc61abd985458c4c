package preference

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// TestEveryOrderOfReadiness plays all orders of what can happen to the endpoints of three other clusters and of this one, for a list of four entries:
// each cluster has no ready endpoint or two, and a second or the whole of return-after passes. In each state:
//
//   - The entry in use is sufficient, or none is.
//   - An earlier entry is used as soon as it has been sufficient for return-after, and is announced until then.
//   - A later entry is used only where no earlier one may be.
//   - Asked again at once, the choice is the same.
func TestEveryOrderOfReadiness(t *testing.T) {
	const depth = 12
	p := policy(t, "local, topology.kubernetes.io/region, cluster=far, any", "2")
	first := readiness{ready: [4]int{2, 2, 2, 2}, now: noon}
	first.choose(p)
	seen, layer, tried := map[string]bool{first.key(): true}, []readiness{first}, 0
	for range depth {
		var next []readiness
		for _, was := range layer {
			for event := range 6 {
				is := was
				is.since = maps.Clone(was.since)
				if event < 4 {
					is.ready[event] = 2 - is.ready[event]
				} else {
					is.now = is.now.Add([]time.Duration{time.Second, p.ReturnAfter}[event-4])
				}
				got := is.choose(p)
				tried++
				if fault := is.fault(p, got); fault != "" {
					t.Fatalf("from %+v with event %d: %s", was, event, fault)
				}
				if key := is.key(); !seen[key] {
					seen[key] = true
					next = append(next, is)
				}
			}
		}
		layer = next
	}
	t.Logf("%d events in %d states", tried, len(seen))
}

// readiness is a state: the ready endpoints of each cluster, what was chosen, and since when each entry is sufficient.
type readiness struct {
	ready  [4]int
	now    time.Time
	memory Memory
	since  map[int]time.Time
}

func (r *readiness) choose(p Policy) Choice {
	got := p.Choose(clusterset(r.ready[0], r.ready[1], r.ready[2], r.ready[3]), r.memory, r.now)
	r.memory = got.Memory
	since := map[int]time.Time{}
	for i, enough := range r.enough() {
		if began, known := r.since[i]; enough && known {
			since[i] = began
		} else if enough {
			since[i] = r.now
		}
	}
	r.since = since
	return got
}

func (r *readiness) enough() []bool {
	a := r.ready
	return []bool{a[0] >= 2, a[0]+a[1] >= 2, a[2] >= 2, a[0]+a[1]+a[2]+a[3] >= 2}
}

// key has ages instead of times, of which those beyond return-after are equal.
func (r *readiness) key() string {
	text := fmt.Sprint(r.ready, r.memory.InUse)
	for _, entry := range slices.Sorted(maps.Keys(r.since)) {
		text += fmt.Sprintf(" %d:%d", entry, int(min(r.now.Sub(r.since[entry]), time.Hour).Seconds()))
	}
	return text
}

func (r *readiness) fault(p Policy, got Choice) string {
	enough := r.enough()
	first := slices.Index(enough, true)
	again := p.Choose(clusterset(r.ready[0], r.ready[1], r.ready[2], r.ready[3]), got.Memory, r.now)
	switch {
	case again.Entry != got.Entry || !again.Memory.Equal(got.Memory):
		return fmt.Sprintf("entry %d, and %d when asked again", got.Entry, again.Entry)
	case first < 0 && got.Entry != len(enough):
		return fmt.Sprintf("entry %d, and none is sufficient", got.Entry)
	case got.Entry < len(enough) && !enough[got.Entry]:
		return fmt.Sprintf("entry %d, which is not sufficient", got.Entry)
	case first >= 0 && first < got.Entry && r.now.Sub(r.since[first]) >= p.ReturnAfter:
		return fmt.Sprintf("entry %d, and %d has been sufficient for %v", got.Entry, first, r.now.Sub(r.since[first]))
	case first >= 0 && first < got.Entry && got.Again <= 0:
		return fmt.Sprintf("nothing announces the return to entry %d", first)
	}
	return ""
}
