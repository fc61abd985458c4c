package contested

import (
	"maps"
	"time"
)

// A field is contested if the same value had to be written again after each of several reverts
// within a window, or if a write of it has no effect. The controller then does not write the field
// during a pause, which doubles with each further revert. A write without effect is tried again
// after longestPause, then after twice as long each time: no event shows that its cause is gone.
const (
	window               = time.Minute
	reverts              = 3
	firstPause           = 10 * time.Second
	longestPause         = 5 * time.Minute
	longestWithoutEffect = time.Hour
)

// Memory finds the fields of the objects of one name that another writer keeps setting back. The zero
// value is empty. Only one pass at a time uses it.
type Memory struct{ fields map[Field]*contest }

// contest is the state of one field.
type contest struct {
	value    string
	writes   int       // consecutive writes of this value
	began    time.Time // time of the first of these writes
	last     time.Time
	pause    time.Duration // 0 while the field is not contested
	reported bool
	noEffect bool // the last write changed nothing
}

// Wrote records fields that have been written. It returns the fields that become contested.
func (m *Memory) Wrote(fields Fields, now time.Time) (news []Field) {
	for field, value := range fields {
		k := m.at(field)
		if k.value != value || k.pause == 0 && now.Sub(k.began) > window {
			*k = contest{value: value, began: now}
		}
		k.writes++
		k.last = now
		switch {
		case k.pause > 0:
			k.pause = min(2*k.pause, longestPause)
		case k.writes > reverts:
			k.pause = firstPause
		}
		if k.pause > 0 && !k.reported {
			k.reported = true
			news = append(news, field)
		}
	}
	return news
}

// NoEffect records fields whose write changed nothing. It returns the fields that are not yet
// reported.
func (m *Memory) NoEffect(fields Fields, now time.Time) (news []Field) {
	for field, value := range fields {
		k := m.at(field)
		if k.value != value || !k.reported {
			news = append(news, field)
		}
		pause := longestPause
		if k.noEffect && k.value == value {
			pause = min(2*k.pause, longestWithoutEffect)
		}
		*k = contest{value: value, writes: k.writes, began: now, last: now, pause: pause, reported: true, noEffect: true}
	}
	return news
}

func (m *Memory) at(field Field) *contest {
	if m.fields == nil {
		m.fields = map[Field]*contest{}
	}
	if m.fields[field] == nil {
		m.fields[field] = &contest{}
	}
	return m.fields[field]
}

// Held returns the fields that must not be written now, and the pause until the next check, 0 for
// never. A field that was not written during its pause and one window more is forgotten, because it
// is no longer reverted.
func (m *Memory) Held(now time.Time) (held Fields, next time.Duration) {
	maps.DeleteFunc(m.fields, func(_ Field, k *contest) bool { return now.Sub(k.last) > k.pause+window })
	for field, k := range m.fields {
		left := min(k.pause, k.pause-now.Sub(k.last)) // last is later than now after a step of the clock
		if left <= 0 {
			continue
		}
		if held == nil {
			held = Fields{}
		}
		held[field] = k.value
		if next == 0 || left < next {
			next = left
		}
	}
	return held, next
}

// Empty reports whether nothing is recorded.
func (m *Memory) Empty() bool { return len(m.fields) == 0 }
