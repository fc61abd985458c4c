package peers

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PeerState is how a peer's data is used in the clusterset.
type PeerState int

const (
	// Dead: the peer's endpoints were proven not to answer. Its endpoints are removed. Its last exports
	// still count for imports.
	Dead PeerState = iota
	// Expired: the peer's time has run out, it was lost and came back too often, or it is dead like all
	// other peers. The same as Dead, but endpoints stay where no other cluster has any.
	Expired
	// Unknown: this process has not read the peer yet, and the peer's time has not run out. Data
	// that exists in this cluster stays unchanged.
	Unknown
	// Active: the data that was read last is used.
	Active
)

// PeerRecord is the part of a peer's state that its Lease keeps over restarts. All times are from
// the clock of this cluster.
type PeerRecord struct {
	// Began is when the peer was first seen. Later it is when the connection began that decides
	// whether the peer has been connected long enough.
	Began metav1.Time
	// LastConnected is when the peer was last connected, or its endpoints answered while its API
	// server was silent; zero for never.
	LastConnected metav1.Time
	// Returns is how often the peer was lost and came back recently.
	Returns int32
}

// Observation describes a peer at one moment.
type Observation struct {
	Now metav1.Time
	// Timeout is how long a peer that cannot be reached counts, 0 for forever.
	Timeout metav1.Duration
	// Connected: the peer answers, and each of its resources is watched. Also if only its API server
	// is silent, and endpoints answer. WasConnected: the same at the previous evaluation.
	Connected, WasConnected bool
	// Dead: the endpoints of the peer are proven not to answer. WasDead: the same at the previous
	// evaluation.
	Dead, WasDead bool
	// Isolated: all other peers fell silent together with this one. The fault can be on this side, so
	// its death is only assumed.
	Isolated bool
	// Silent: its API server does not answer, perhaps for a moment only.
	Silent bool
	// Known: the peer has been read completely since the start of this process.
	Known bool
}

// unsettled reports whether the connections to endpoints can change the state at any moment.
func (s Observation) unsettled() bool { return s.Silent || s.Dead }

// A peer that was lost once counts again at once, so that one outage has no further cost. From the
// second time on it must stay connected for a while, each time twice as long. This limits how often
// clients of a Service see endpoints disappear and return. After an hour without a loss the count
// returns to zero.
const (
	second      = time.Second
	firstWait   = 30 * second
	longestWait = 600 * second
	forgotten   = 3600 * second
)

// wait returns how long a peer must stay connected before it counts.
func (r PeerRecord) wait() metav1.Duration {
	if r.Returns < 2 {
		return metav1.Duration{}
	}
	return metav1.Duration{Duration: min(firstWait<<min(r.Returns-2, 10), longestWait)}
}

// Observe returns the record after an observation.
func (r PeerRecord) Observe(s Observation) PeerRecord {
	if !s.Connected {
		return r
	}
	switch {
	case r.LastConnected.IsZero():
		r.Began = s.Now
	case s.WasConnected: // regardless of the interval: the process may have been suspended
		if s.Now.Sub(r.Began.Time) >= forgotten {
			r.Returns = 0
		}
	case s.WasDead, s.Timeout.Duration > 0 && s.Now.Sub(r.LastConnected.Time) >= s.Timeout.Duration:
		r.Began = s.Now
		r.Returns++
	case r.LastConnected.Sub(r.Began.Time) < r.wait().Duration: // it was lost during the wait
		r.Began = s.Now
	}
	r.LastConnected = s.Now
	return r
}

// State returns the peer's state, and the pause until the next evaluation if nothing else happens,
// 0 for never.
func (r PeerRecord) State(s Observation) (PeerState, metav1.Duration) {
	known := Unknown
	if s.Known {
		known = Active
	}
	if s.Dead && !s.Isolated {
		return Dead, metav1.Duration{}
	}
	if s.Timeout.Duration == 0 {
		return known, metav1.Duration{}
	}
	if s.Dead {
		return Expired, metav1.Duration{}
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

// Remaining returns how long the peer must still stay connected before it counts.
func (r PeerRecord) Remaining(now metav1.Time) metav1.Duration {
	wait := r.wait().Duration
	return metav1.Duration{Duration: max(0, min(wait, wait-now.Sub(r.Began.Time)))} // it can have begun later than now after a step of the clock
}
