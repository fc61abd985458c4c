package peers

import (
	"context"
	"fmt"
	"time"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// The leader writes the time to its namespace, beside the announced ID. A peer's clock can differ, so
// only changes of the value count.
const (
	// defaultHeartbeat is the default of Options.Heartbeat.
	defaultHeartbeat = 30 * time.Second
	// maxBeat limits a heartbeat, in bytes. Longer ones are ignored.
	maxBeat = 64
)

// heartbeat is what is known of the heartbeat of a peer.
type heartbeat struct {
	value string    // "" for none: the controller there is an older one
	since time.Time // when it changed last, or since when it can be read
	at    time.Time // of the last evaluation
	mute  bool      // it has not changed for muteAfter
}

// muteAfter is when a controller without a new heartbeat counts as silent: two may be lost.
func (o Options) muteAfter() time.Duration { return o.Heartbeat * 10 / 3 }

// hear notes the value that can be read now.
func (h *heartbeat) hear(value string, now time.Time, muteAfter time.Duration) {
	switch asleep := now.Sub(h.at) > muteAfter/2; {
	case value != h.value || value == "":
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
	found := &p.connection.identity
	speaker := found.speaker(p.id)
	p.beat.hear(found.beats[speaker], now, p.registry.options.muteAfter())
	if !p.beat.mute {
		return "", ""
	}
	return ControllerSilent, fmt.Sprintf("the API server answers, but the controller there has written no heartbeat to its namespace %s for more than %v; the last one is %s. Look at its pods in that cluster: "+
		"what it exports is no longer up to date. If it runs in another namespace by now, remove the annotation %s from %[1]s", speaker, p.registry.options.muteAfter(), p.beat.value, mcs.AnnotationClusterID)
}

// beat writes the heartbeat of this cluster, if it is time.
func (r *Registry) beat(ctx context.Context, version string) error {
	now := r.options.Now()
	if now.Sub(r.beaten) < r.options.Heartbeat {
		return nil
	}
	if err := r.writeAnnotation(ctx, version, mcs.AnnotationHeartbeat, now.UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	r.beaten = now
	return nil
}
