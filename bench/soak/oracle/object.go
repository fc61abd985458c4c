package oracle

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// State is what an object is from one write on.
type State struct {
	Number uint32 // what is answered has it in itself; no two states have the same
	Size   int    // of an import 1 or, without IPs, 0; of a slice its endpoints
	Gone   bool   // there is no such object

	began, done time.Duration // when its write was sent, and when the API server had said that it was done; 0: not yet
}

// Object is one API object, with all the states that it had. One writer at a time gives it new ones.
type Object struct {
	fence *Fence

	mu     sync.Mutex
	states []State
	oldest int // that a question which is asked now may be answered with
}

// NewObject is an object that does not exist yet.
func NewObject(f *Fence) *Object { return &Object{fence: f, states: []State{{Gone: true, done: 1}}} }

// Begin notes that the write of a new state is about to be sent. It panics if the last one is not done: two writers would leave it open
// what is true.
func (o *Object) Begin(s State, now time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.states[len(o.states)-1].done == 0 {
		panic("oracle: a second writer")
	}
	s.began, s.done = now, 0
	o.states = append(o.states, s)
}

// End notes that the API server has said that the last write is done.
func (o *Object) End(now time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.states[len(o.states)-1].done = now
}

// Last is the newest state.
func (o *Object) Last() State {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.states[len(o.states)-1]
}

// IsLastShown says whether the newest state was answered.
func (o *Object) IsLastShown() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.oldest == len(o.states)-1
}

// ask is the oldest state that a question may show which is asked now.
func (o *Object) ask() int {
	at := o.fence.Passed()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.oldest+1 < len(o.states) {
		if next := o.states[o.oldest+1]; next.done == 0 || next.done > at {
			break
		}
		o.oldest++
	}
	return o.oldest
}

// window is the states that a reply may show, for a question that could show the given one.
func (o *Object) window(oldest int, replied time.Duration) window {
	o.mu.Lock()
	defer o.mu.Unlock()
	end := oldest + 1
	for end < len(o.states) && o.states[end].began <= replied {
		end++
	}
	return window{oldest, slices.Clone(o.states[oldest:end])}
}

// history is all the states.
func (o *Object) history() []State {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.states)
}

// shown notes that a reply has shown a state between two places, and gives for how long the last of them had not been the newest state when
// the question was asked.
func (o *Object) shown(oldest, newest int, asked time.Duration) (age time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.oldest = max(o.oldest, oldest)
	if newest+1 < len(o.states) && o.states[newest+1].done != 0 {
		age = max(0, asked-o.states[newest+1].done)
	}
	return age
}

// window is some successive states of an object.
type window struct {
	first  int // the place of the first of them among all
	states []State
}

// Fence is the instant before which every write to one resource is known to be answered.
type Fence struct{ passed atomic.Int64 }

// Pass notes that a write to the resource that was sent at that instant is answered.
func (f *Fence) Pass(sent time.Duration) {
	for {
		before := f.passed.Load()
		if int64(sent) <= before || f.passed.CompareAndSwap(before, int64(sent)) {
			return
		}
	}
}

// Passed is when the last write that is known to be answered was sent.
func (f *Fence) Passed() time.Duration { return time.Duration(f.passed.Load()) }
