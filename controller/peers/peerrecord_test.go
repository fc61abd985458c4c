package peers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// at returns a moment that is after the start by a duration.
func at(after time.Duration) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(after))
}

func TestStandingOfAPeer(t *testing.T) {
	const timeout = time.Minute
	for name, c := range map[string]struct {
		record    PeerRecord
		now       time.Duration
		connected bool
		unknown   bool
		forEver   bool
		dead      bool
		want      PeerState
		again     time.Duration
	}{
		"connected":                                          {record: PeerRecord{at(0), at(time.Hour), 0}, now: time.Hour, connected: true, want: Active},
		"away for a moment":                                  {record: PeerRecord{at(0), at(time.Hour), 0}, now: time.Hour + time.Second, want: Active, again: 59 * time.Second},
		"away for its time":                                  {record: PeerRecord{at(0), at(time.Hour), 0}, now: time.Hour + timeout, want: Expired},
		"away for long, and there is no timeout":             {record: PeerRecord{at(0), at(0), 0}, now: 1000 * time.Hour, forEver: true, want: Active},
		"not heard since the start":                          {record: PeerRecord{at(0), at(time.Hour), 0}, now: time.Hour + time.Second, unknown: true, want: Unknown, again: 59 * time.Second},
		"not heard since the start, for its time":            {record: PeerRecord{at(0), at(time.Hour), 0}, now: time.Hour + timeout, unknown: true, want: Expired},
		"not heard since the start, and there is no timeout": {record: PeerRecord{at(0), at(0), 0}, now: 1000 * time.Hour, unknown: true, forEver: true, want: Unknown},
		"never heard":                                        {record: PeerRecord{Began: at(0)}, now: 59 * time.Second, unknown: true, want: Unknown, again: time.Second},
		"never heard, for its time":                          {record: PeerRecord{Began: at(0)}, now: timeout, unknown: true, want: Expired},
		"never heard, and there is no timeout":               {record: PeerRecord{Began: at(0)}, now: 1000 * time.Hour, unknown: true, forEver: true, want: Unknown},
		"back for the first time":                            {record: PeerRecord{at(0), at(0), 1}, now: 0, connected: true, want: Active},
		"back for the second time":                           {record: PeerRecord{at(0), at(time.Second), 2}, now: time.Second, connected: true, want: Expired, again: 29 * time.Second},
		"back for the second time, and stayed":               {record: PeerRecord{at(0), at(30 * time.Second), 2}, now: 30 * time.Second, connected: true, want: Active},
		"back for the third time":                            {record: PeerRecord{at(0), at(30 * time.Second), 3}, now: 30 * time.Second, connected: true, want: Expired, again: 30 * time.Second},
		"back for the hundredth time":                        {record: PeerRecord{at(0), at(time.Minute), 100}, now: time.Minute, connected: true, want: Expired, again: 9 * time.Minute},
		"went away while it had to stay":                     {record: PeerRecord{at(0), at(29 * time.Second), 2}, now: 40 * time.Second, want: Expired},
		"stayed, and is away for a moment":                   {record: PeerRecord{at(0), at(31 * time.Second), 2}, now: 40 * time.Second, want: Active, again: 51 * time.Second},
		"has to stay, but no time is counted":                {record: PeerRecord{at(0), at(0), 5}, now: 0, connected: true, forEver: true, want: Active},
		"connected after a restart, and not read yet":        {record: PeerRecord{at(0), at(0), 0}, now: 0, connected: true, unknown: true, want: Unknown},
		"dead":                         {record: PeerRecord{at(0), at(0), 0}, now: time.Second, dead: true, want: Dead},
		"dead, and no time is counted": {record: PeerRecord{at(0), at(0), 0}, now: time.Second, dead: true, forEver: true, want: Dead},
	} {
		t.Run(name, func(t *testing.T) {
			s := Observation{Now: at(c.now), Timeout: metav1.Duration{Duration: timeout}, Connected: c.connected, Dead: c.dead, Known: !c.unknown}
			if c.forEver {
				s.Timeout.Duration = 0
			}
			if got, again := c.record.State(s); got != c.want || again.Duration != c.again {
				t.Errorf("%v, look again after %v; want %v, after %v", got, again.Duration, c.want, c.again)
			}
		})
	}
}

func TestRecordOfAPeer(t *testing.T) {
	const timeout = time.Minute
	for name, c := range map[string]struct {
		before    PeerRecord
		now       time.Duration
		connected bool
		was       bool
		want      PeerRecord
		wasDead   bool
	}{
		"away":                           {PeerRecord{at(0), at(1), 3}, time.Hour, false, true, PeerRecord{at(0), at(1), 3}, false},
		"connected for the first time":   {PeerRecord{Began: at(0)}, time.Hour, true, false, PeerRecord{at(time.Hour), at(time.Hour), 0}, false},
		"still connected":                {PeerRecord{at(0), at(1), 0}, time.Second, true, true, PeerRecord{at(0), at(time.Second), 0}, false},
		"back before its time":           {PeerRecord{at(0), at(1), 0}, time.Second, true, false, PeerRecord{at(0), at(time.Second), 0}, false},
		"back after its time":            {PeerRecord{at(0), at(1), 0}, time.Hour, true, false, PeerRecord{at(time.Hour), at(time.Hour), 1}, false},
		"and again":                      {PeerRecord{at(0), at(1), 1}, time.Hour, true, false, PeerRecord{at(time.Hour), at(time.Hour), 2}, false},
		"interrupted while it must stay": {PeerRecord{at(0), at(20 * time.Second), 2}, 25 * time.Second, true, false, PeerRecord{at(25 * time.Second), at(25 * time.Second), 2}, false},
		"the process slept":              {PeerRecord{at(0), at(1), 0}, 30 * time.Minute, true, true, PeerRecord{at(0), at(30 * time.Minute), 0}, false},
		"stable for an hour":             {PeerRecord{at(0), at(time.Hour - 1), 4}, time.Hour, true, true, PeerRecord{at(0), at(time.Hour), 0}, false},
		"not quite for an hour":          {PeerRecord{at(0), at(time.Hour - 2), 4}, time.Hour - 1, true, true, PeerRecord{at(0), at(time.Hour - 1), 4}, false},
		"dead, and back at once":         {PeerRecord{at(0), at(1), 0}, time.Second, true, false, PeerRecord{at(time.Second), at(time.Second), 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := Observation{Now: at(c.now), Timeout: metav1.Duration{Duration: timeout}, Connected: c.connected, WasConnected: c.was, WasDead: c.wasDead, Known: true}
			if got := c.before.Observe(s); got != c.want {
				t.Errorf("%+v; want %+v", got, c.want)
			}
		})
	}
}

// TestUnstablePeerIsDamped evaluates a peer each second for an hour. The peer is
// connected for two minutes and then lost for two minutes, alternately.
func TestUnstablePeerIsDamped(t *testing.T) {
	record, was, changes, counted := PeerRecord{Began: at(0)}, false, 0, false
	for now := range 3600 {
		s := Observation{
			Now: at(time.Duration(now) * time.Second), Timeout: metav1.Duration{Duration: 30 * time.Second},
			Connected: now/120%2 == 0, WasConnected: was, Known: true,
		}
		record = record.Observe(s)
		standing, _ := record.State(s)
		if (standing == Active) != counted {
			counted = !counted
			changes++
		}
		was = s.Connected
	}
	// It counts at once, at once, after 30 s, after 60 s. The next wait is
	// 120 s, which it never reaches.
	if changes != 8 || record.Returns < 14 {
		t.Errorf("counted, or did not, %d times over %d returns; want 8 over 14", changes, record.Returns)
	}
}
