package peers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PeerState is what a peer counts for in the clusterset.
type PeerState int

const (
	// Expired: its time has run out, or it has come and gone too often. Its endpoints are removed; what it exported last still counts for imports.
	Expired PeerState = iota
	// Unknown: this process has not read it yet, and its time has not run out. What there is of it stays as it is.
	Unknown
	// Active: what was read last is true.
	Active
)

// PeerRecord is what is remembered of a peer over restarts, in its Lease. All times are of the own cluster's clock.
type PeerRecord struct {
	// Began is when the peer was first seen; later, when the connection began that it counts by.
	Began metav1.Time
	// LastConnected is when it was connected last; zero for never.
	LastConnected metav1.Time
	// Returns is how often it was gone and came back, lately.
	Returns int32
}

// Observation is of a peer at one moment.
type Observation struct {
	Now metav1.Time
	// Timeout is how long a peer that cannot be reached counts; 0 for ever.
	Timeout metav1.Duration
	// Connected: it answers, and each of its resources is watched. WasConnected: so it was at the evaluation before.
	Connected, WasConnected bool
	// Known: it has been read completely since this process' start.
	Known bool
}

// A peer that was gone counts again at once the first time, so that one outage costs nothing more than itself. From the second time
// on it has to stay connected for a while, each time twice as long: clients of a Service see endpoints come and go at most so often.
// After an hour without going all that is forgotten.
const (
	second      = 1_000_000_000 // of a metav1.Duration
	firstWait   = 30 * second
	longestWait = 600 * second
	forgotten   = 3600 * second
)

// wait is how long a peer has to stay connected before it counts.
func (r PeerRecord) wait() metav1.Duration {
	if r.Returns < 2 {
		return metav1.Duration{}
	}
	wait := metav1.Duration{Duration: firstWait}
	for n := r.Returns; n > 2 && wait.Duration < longestWait; n-- {
		wait.Duration *= 2
	}
	wait.Duration = min(wait.Duration, longestWait)
	return wait
}

// Observe returns the record after an observation.
func (r PeerRecord) Observe(s Observation) PeerRecord {
	if !s.Connected {
		return r
	}
	switch {
	case r.LastConnected.IsZero():
		r.Began = s.Now
	case s.WasConnected: // However long ago it was looked at: the process may have slept.
		if s.Now.Sub(r.Began.Time) >= forgotten {
			r.Returns = 0
		}
	case s.Timeout.Duration > 0 && s.Now.Sub(r.LastConnected.Time) >= s.Timeout.Duration:
		r.Began = s.Now
		r.Returns++
	case r.LastConnected.Sub(r.Began.Time) < r.wait().Duration: // It went away while it had to stay.
		r.Began = s.Now
	}
	r.LastConnected = s.Now
	return r
}

// State returns the peer's state, and after how long to evaluate it again if nothing else happens; 0 for never.
func (r PeerRecord) State(s Observation) (PeerState, metav1.Duration) {
	known := Unknown
	if s.Known {
		known = Active
	}
	if s.Timeout.Duration == 0 {
		return known, metav1.Duration{}
	}
	if s.Connected {
		if left := r.Remaining(s.Now); left.Duration > 0 {
			return Expired, left
		}
		return known, metav1.Duration{}
	}
	last := r.LastConnected
	if last.IsZero() {
		last = r.Began
	} else if last.Sub(r.Began.Time) < r.wait().Duration {
		return Expired, metav1.Duration{}
	}
	left := metav1.Duration{Duration: s.Timeout.Duration - s.Now.Sub(last.Time)}
	if left.Duration <= 0 {
		return Expired, metav1.Duration{}
	}
	return known, left
}

// Remaining is how long the peer still has to stay connected before it counts.
func (r PeerRecord) Remaining(now metav1.Time) metav1.Duration {
	return metav1.Duration{Duration: max(0, r.wait().Duration-now.Sub(r.Began.Time))}
}
