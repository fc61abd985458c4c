package dnsload

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Result is what came of all questions.
type Result struct {
	Asked      int
	Took       time.Duration
	Rcodes     map[string]int // of the answers
	Ways       map[string]int // the answers by how they were asked for
	Wrong      int            // answers that are not the right ones
	Unanswered map[string]int // by how they were asked
	Retried    int            // of the unanswered, those that a second try had the right answer for

	P50, P99, Longest time.Duration // from question to answer

	Failures []Failure // wrong and unanswered, by time: no more than there is room for
}

// AskedBy is how many questions were asked in a way.
func (r Result) AskedBy(way string) int { return r.Ways[way] + r.Unanswered[way] }

// Failure is one question without the right answer.
type Failure struct {
	At       time.Time // when it was asked
	Took     time.Duration
	Way      string
	Question string
	What     string
}

// room is for how many failures are noted. With more, one does not read them one by one.
const room = 1600

// tally is what all clients count in.
type tally struct {
	mu     sync.Mutex
	result Result
	times  []time.Duration
}

func newTally() *tally {
	return &tally{result: Result{Rcodes: map[string]int{}, Ways: map[string]int{}, Unanswered: map[string]int{}}}
}

func (t *tally) answered(rcode, way string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Asked++
	t.result.Rcodes[rcode]++
	t.result.Ways[way]++
	t.times = append(t.times, took)
}

func (t *tally) wrong(f Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Wrong++
	t.note(f)
}

func (t *tally) unanswered(f Failure, retried bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Asked++
	t.result.Unanswered[f.Way]++
	if retried {
		t.result.Retried++
	}
	t.note(f)
}

func (t *tally) asked() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.result.Asked
}

func (t *tally) note(f Failure) {
	if len(t.result.Failures) < room {
		t.result.Failures = append(t.result.Failures, f)
	}
}

// sum gives the result when all clients have ended.
func (t *tally) sum(took time.Duration) Result {
	r := t.result
	r.Took = took
	slices.SortFunc(r.Failures, func(a, b Failure) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Question, b.Question)) })
	slices.Sort(t.times)
	r.P50, r.P99, r.Longest = part(t.times, 50), part(t.times, 99), part(t.times, 100)
	return r
}

// part is the time that so many percent of sorted times do not exceed.
func part(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[(len(times)-1)*percent/100]
}
