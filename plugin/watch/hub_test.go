package watch

import (
	"testing"
	"time"
)

// A secondary compares serials by RFC 1982: the later one has to be the larger, also over the end of the 32 bits.
func TestSerialsGrow(t *testing.T) {
	const interval = time.Second / serialsPerSecond
	for at := time.Unix(1<<32/serialsPerSecond*25-1, 0); at.Unix() < 1<<32/serialsPerSecond*25+1; at = at.Add(interval) {
		if grown := int32(serialAt(at.Add(interval)) - serialAt(at)); grown != 1 {
			t.Fatalf("from %v to the next interval the serial grows by %d", at, grown)
		}
	}
	now := time.Now()
	for lead, want := range map[uint32]time.Duration{0: 0, maxLead: 0, maxLead + 1: interval, 64 * 3600: interval, 1<<32 - 1: 0, 1 << 31: 0} {
		if got := pause(serialAt(now)+lead, now); got != want {
			t.Errorf("%d ahead of the clock the next Index waits for %v, want %v", lead, got, want)
		}
	}
	year := 365 * 24 * time.Hour
	if int32(serialAt(now.Add(year))-serialAt(now)) <= 0 {
		t.Error("a secondary that was away for a year takes the new serial for an older one")
	}
}
