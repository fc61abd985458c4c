package e2e

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/test/e2e/dnsload"
)

// After a server has stopped serving kube-proxy hears of it, and at most once a second tells the kernel. On a busy machine the one who notes
// the time may hear of it as late.
const (
	beforeEnd = time.Second
	afterEnd  = 3 * time.Second
	// From the signal that ends a server: `lameduck`, and a second.
	lameduck = 6 * time.Second
	// refused is what a client hears when its flow leads to a host on which no server listens any more: it has seen the end itself. The
	// kubelet then looks, writes the pod's status, and a controller the slice: on a busy machine that is noted as much later.
	refused = "connection refused"
)

// toll is what ends of servers may cost: so many failures at each, from so long before on, and so many in all.
type toll struct {
	each, all int
	before    time.Duration
	share     int // of so many questions over kept sockets one may be lost, over the whole load; but see leastShare. 0: no matter
}

// leastShare is how many may be lost of however few questions. In loads of five minutes, with two dozen ends of servers and some 350 000 questions
// over kept sockets, 4, 2 and none were; so that both are well above what is usual, and far below what each of the ends may cost.
const leastShare = 10

var (
	// Only what is in flight over a flow that kube-proxy makes the kernel forget may be lost: its answer comes from an address that was not
	// asked. Sockets that are kept have such flows.
	tollOfSockets = toll{dnsload.KeptSockets, math.MaxInt, beforeEnd, 30_000}
	// A resolver's socket is new, but its port may have been another one's, and still have that one's flow: so rarely that more than one in a
	// whole load says something else.
	tollOfResolver = toll{1, 1, beforeEnd, 0}
	// With one server the restart's cost is measured. What it costs lies around it.
	tollOfOne = toll{math.MaxInt, math.MaxInt, lameduck, 0}
)

// complaints are what is wrong with a result, where servers ended at some times: answers that are not right, and questions without an answer
// that no end explains, or that had none either when asked again.
func (c toll) complaints(r dnsload.Result, ends []time.Time) []string {
	var all []string
	complain := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	lost := 0
	for _, n := range r.Unanswered {
		lost += n
	}
	complain(r.Rcodes["NOERROR"] == 0 || r.Rcodes["NXDOMAIN"] == 0, "answers %v; want some of NOERROR and some of NXDOMAIN", r.Rcodes)
	complain(r.Wrong > 0, "%d wrong answers", r.Wrong)
	complain(c != tollOfOne && lost > r.Unanswered[dnsload.Kept], "without an answer: %v; want none but over «%s»", r.Unanswered, dnsload.Kept)
	if c.share > 0 {
		most := max(leastShare, r.AskedBy(dnsload.Kept)/c.share)
		complain(r.Unanswered[dnsload.Kept] > most, "%d of %d questions over «%s» were lost; want %d at most", r.Unanswered[dnsload.Kept],
			r.AskedBy(dnsload.Kept), dnsload.Kept, most)
	}
	complain(c != tollOfOne && lost > r.Retried, "%d questions had no answer when asked again, either", lost-r.Retried)
	complain(lost+r.Wrong > len(r.Failures), "%d failures, of which %d were noted: more than can be looked at", lost+r.Wrong, len(r.Failures))
	for _, f := range c.unexplained(r.Failures, ends) {
		all = append(all, fmt.Sprintf("%s (%s), at %s: %s; no server's end explains it: the last was noted at %s, the next at %s", f.Question, f.Way, clock(f.At), f.What, lastEnd(ends, f.At), nextEnd(ends, f.At)))
	}
	return all
}

// unexplained are the failures around which no server ended, or too many were lost then. Ends explain as much as they can when each failure is
// given to the first end that has room.
func (c toll) unexplained(failures []dnsload.Failure, ends []time.Time) []dnsload.Failure {
	ends = slices.SortedFunc(slices.Values(ends), time.Time.Compare)
	failures = slices.SortedFunc(slices.Values(failures), func(a, b dnsload.Failure) int { return a.At.Compare(b.At) })
	explains, all := make([]int, len(ends)), 0
	return slices.DeleteFunc(failures, func(f dnsload.Failure) bool {
		for i, end := range ends {
			before := c.before
			if strings.Contains(f.What, refused) {
				before = lameduck
			}
			if since := f.At.Sub(end); since >= -before && since <= afterEnd && explains[i] < c.each && all < c.all {
				explains[i]++
				all++
				return true
			}
		}
		return false
	})
}

// lastEnd is when the last server ended before a time.
func lastEnd(ends []time.Time, at time.Time) string {
	earlier := slices.DeleteFunc(slices.Clone(ends), at.Before)
	if len(earlier) == 0 {
		return "no time"
	}
	return clock(slices.MaxFunc(earlier, time.Time.Compare))
}

// nextEnd is when the first server ended after a time.
func nextEnd(ends []time.Time, at time.Time) string {
	later := slices.DeleteFunc(slices.Clone(ends), at.After)
	if len(later) == 0 {
		return "no time"
	}
	return clock(slices.MinFunc(later, time.Time.Compare))
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05.000") }

// TestUnitLossesAreExplainedByEndsOfServers: what a load is judged by.
func TestUnitLossesAreExplainedByEndsOfServers(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds ...float64) (times []time.Time) {
		for _, s := range seconds {
			times = append(times, noon.Add(time.Duration(s*float64(time.Second))))
		}
		return times
	}
	for _, c := range []struct {
		name       string
		one        bool      // server
		lost       []float64 // seconds after noon
		refused    bool      // instead of no answer
		way        string    // dnsload.Kept unless given
		notRetried int
		wrong      int
		unnoted    int
		answered   int // questions over kept sockets
		ends       []float64
		complaints int
	}{
		{name: "nothing lost, and no server ended"},
		{name: "one for each kept socket when a server ends", lost: []float64{1.5, 4}, ends: []float64{1}},
		{name: "one more", lost: []float64{1.5, 1.5, 4}, ends: []float64{1}, complaints: 1},
		{name: "two servers end soon one after the other", lost: []float64{2, 4, 4, 7}, ends: []float64{4, 1}},
		{name: "one lost long after the end", lost: []float64{4.5}, ends: []float64{1}, complaints: 1},
		{name: "one lost long before the end", lost: []float64{3}, ends: []float64{5}, complaints: 1},
		{name: "one lost just before the end was reported", lost: []float64{4.5}, ends: []float64{5}},
		{name: "one refused long before the end was reported", lost: []float64{3}, refused: true, ends: []float64{8.5}},
		{name: "one refused, and no server ended then", lost: []float64{3}, refused: true, ends: []float64{9.5}, complaints: 1},
		{name: "more refused than sockets are kept", lost: []float64{3, 3, 3}, refused: true, ends: []float64{8.5}, complaints: 1},
		{name: "one lost, and no server ended", lost: []float64{3}, complaints: 1},
		{name: "many ended, and all is lost at one of them", lost: []float64{3, 3, 3, 3}, ends: []float64{1, 60, 120}, complaints: 2},
		{name: "as many as there may be", lost: slices.Repeat([]float64{1, 11, 21, 31, 41}, 2), ends: []float64{1, 11, 21, 31, 41, 51}},
		{name: "two at each end, and too many in all", lost: slices.Repeat([]float64{1, 11, 21, 31, 41, 51}, 2), ends: []float64{1, 11, 21, 31, 41, 51}, complaints: 1},
		{name: "not too many of so many questions", lost: slices.Repeat([]float64{1, 11, 21, 31, 41, 51}, 2), answered: 360_000, ends: []float64{1, 11, 21, 31, 41, 51}},
		{name: "a fresh socket's question", lost: []float64{3}, way: "udp", ends: []float64{1}, complaints: 1},
		{name: "no answer when asked again", lost: []float64{3}, notRetried: 1, ends: []float64{1}, complaints: 1},
		{name: "a wrong answer", wrong: 1, ends: []float64{1}, complaints: 1},
		{name: "more lost than noted", unnoted: 1, ends: []float64{1}, complaints: 1},
		{name: "one server ends: many lost, by whatever way", one: true, lost: []float64{1, 2, 3, 4, 5, 6}, way: "udp", notRetried: 6, ends: []float64{5}},
		{name: "one server does not answer after its restart", one: true, lost: []float64{1, 2, 3, 12, 13}, way: "tcp", notRetried: 5, ends: []float64{5}, complaints: 2},
		{name: "one server answers something wrong", one: true, wrong: 1, ends: []float64{1}, complaints: 1},
	} {
		judged := tollOfSockets
		if c.one {
			judged = tollOfOne
		}
		if c.way == "" {
			c.way = dnsload.Kept
		}
		r := dnsload.Result{Rcodes: map[string]int{"NOERROR": 9, "NXDOMAIN": 9}, Wrong: c.wrong, Ways: map[string]int{dnsload.Kept: c.answered},
			Unanswered: map[string]int{c.way: len(c.lost) + c.unnoted}, Retried: len(c.lost) + c.unnoted - c.notRetried}
		for _, when := range slices.Concat(at(c.lost...), at(slices.Repeat([]float64{2}, c.wrong)...)) {
			what := "no answer"
			if c.refused {
				what = "read: read: " + refused
			}
			r.Failures = append(r.Failures, dnsload.Failure{At: when, Way: c.way, What: what})
		}
		if got := judged.complaints(r, at(c.ends...)); len(got) != c.complaints {
			t.Errorf("%s: %q; want %d complaints", c.name, got, c.complaints)
		}
	}
	if got := tollOfSockets.complaints(dnsload.Result{Rcodes: map[string]int{"NOERROR": 9}}, nil); len(got) != 1 {
		t.Errorf("no name was denied: %q; want one complaint", got)
	}
}

// TestUnitPauses: a pause that is longer than a resolver waits is reported, with the time of the
// request that waited.
func TestUnitPauses(t *testing.T) {
	var all []request
	for _, at := range []time.Duration{0, time.Second, 6 * time.Second, 7 * time.Second} {
		all = append(all, request{at: time.Hour + at})
	}
	got := pauses(all)
	if len(got) != 1 || got[0].Took != resolverPatience || !got[0].At.Equal(time.Unix(3601, 0)) {
		t.Fatalf("%v", got)
	}
	for since, explained := range map[time.Duration]bool{0: true, afterEnd: true, afterEnd + 1: false, -beforeEnd - 1: false} {
		if left := tollOfResolver.unexplained(got, []time.Time{got[0].At.Add(-since)}); explained != (len(left) == 0) {
			t.Errorf("%v after a server's end: %v", since, left)
		}
	}
	if left := tollOfResolver.unexplained(append(got, got...), []time.Time{got[0].At}); len(left) != 1 {
		t.Errorf("one end explains two: %v", left)
	}
	again := dnsload.Failure{At: got[0].At.Add(time.Minute)}
	if left := tollOfResolver.unexplained(append(got, again), []time.Time{got[0].At, again.At}); len(left) != 1 {
		t.Errorf("two are explained in one load: %v", left)
	}
}
