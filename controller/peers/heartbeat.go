package peers

import (
	"fmt"
	"time"

	"github.com/clusterset-dns/multicluster/internal/member"
)

// heartbeat is what is known of the heartbeat of a peer. The clock there can differ, so only changes of the value count.
type heartbeat struct {
	value string    // of the Lease there, in seconds (RFC 3339)
	since time.Time // when it changed last, or since when it can be read
	at    time.Time // of the last evaluation
	mute  bool      // it has not changed for muteAfter
}

// muteAfter is when a controller without a new heartbeat counts as silent: two may be lost.
func (o Options) muteAfter() time.Duration { return o.Heartbeat * 10 / 3 }

// hear notes the value that can be read now.
func (h *heartbeat) hear(value string, now time.Time, muteAfter time.Duration) {
	switch asleep := now.Sub(h.at) > muteAfter/2; {
	case value != h.value:
		*h = heartbeat{value: value, since: now}
	case asleep && !h.mute: // this process was suspended
		h.since = now
	case now.Sub(h.since) > muteAfter:
		h.mute = true
	}
	h.at = now
}

// deaf notes that the heartbeat cannot be read now.
func (h *heartbeat) deaf(now time.Time) { h.since, h.at = now, now }

// controllerLocked returns the condition of the controller of a peer whose API server answers, or ""
// if it is not silent.
func (p *peer) controllerLocked(reason string) (newReason, message string) {
	now := p.registry.options.Now()
	if reason != Connected && reason != InvalidLimits {
		p.beat.deaf(now)
		return "", ""
	}
	value := "never"
	if at := p.connection.heard.Renewed; !at.IsZero() {
		value = rfc3339(at)
	}
	p.beat.hear(value, now, p.registry.options.muteAfter())
	if !p.beat.mute {
		return "", ""
	}
	return ControllerSilent, fmt.Sprintf("the API server answers, but the controller there has not renewed its Lease %s/%s for more than %v; the last time was %s. Look at its pods in that cluster: "+
		"what it exports is no longer up to date. If it runs in another namespace by now, set the namespace of the context in the kubeconfig", p.connection.namespace, member.Name, p.registry.options.muteAfter(), p.beat.value)
}

// The first and the longest pause between two changes of an announcement that take effect.
const firstHold, longestHold = time.Second, time.Minute

// hold is how long a further change of an announcement waits.
type hold struct {
	pause time.Duration // 0 before the first change
	since time.Time     // the last change
}

// left returns the rest of the pause.
func (h *hold) left(now time.Time) time.Duration {
	return min(h.pause, h.pause-now.Sub(h.since)) // since is later than now after a step of the clock
}

// change notes a change. The next one waits twice as long, if it comes soon.
func (h *hold) change(now time.Time) {
	if now.Sub(h.since) > longestHold {
		h.pause = 0
	}
	h.pause, h.since = min(max(2*h.pause, firstHold), longestHold), now
}

// adoptLocked lets what a peer announces take effect. It reports whether something has changed, and the pause until it can change again.
// Each change costs work for all names of the peer, and for all other peers, so one that comes again and again waits. Only the
// loss of the identity does not: what another cluster has must not be taken for what the peer has.
func (c *connection) adoptLocked(now time.Time) (changed bool, pause time.Duration) {
	if c.member.Same(c.heard) {
		return false, 0
	}
	lost := c.member.ID == c.peer.id && c.heard.ID != c.peer.id
	if left := c.hold.left(now); left > 0 && !lost {
		return false, left
	}
	c.hold.change(now)
	c.member = c.heard
	return true, 0
}
