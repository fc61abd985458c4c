package peers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/internal/member"
)

// peer is another cluster of the clusterset, from the creation of its Secret until it has left.
type peer struct {
	registry *Registry
	id       string
	cancel   context.CancelFunc
	after    <-chan struct{} // closed when a former peer with this ID has ended; may be nil
	ended    chan struct{}
	wake     chan struct{} // contains a token if the peer must be evaluated

	// Guarded by the Registry's mu:
	refused, refusal string // why a peer cannot have its ID
	secret           secret
	secrets          int           // how often it has changed
	missing          time.Time     // when its Secret disappeared; zero if it exists
	grace            time.Duration // how long the Secret may be missing
	adopted          bool          // the Secret has been missing since the start
	left             bool          // it is no longer a peer
	connection       *connection
	broken           error     // why its kubeconfig cannot be used
	contents         *contents // the contents in use; nil until the first are complete
	state            PeerState
	announced        member.Announcement // as it was when the peer was connected last
	properties       map[string]string   // from it
	exports          map[string]bool     // the namespaces that the peer exports from; nil: all
	limits           limits
	beat             heartbeat    // of its controller
	way              datapath.Way // to its endpoints; guarded by the prober's mu
	retarget         bool         // its endpoints may be others than those that are connected to
	quota            *quota       // of limits
	refusals         refusals     // what the limits refuse
	counted          time.Time    // when refusals were counted
	renewal          renewal      // of the token

	// Used only by run:
	source
	begun     bool // a connection was attempted
	waited    bool // the value of adopted in the last evaluation
	record    PeerRecord
	lease     lease
	condition condition
	version   string    // the last that its controller has announced
	measured  [2]string // the reason and the version in the metric
	contact   time.Time // when its API server last answered; zero for never
	reach
}

// notify makes run evaluate the peer soon.
func (p *peer) notify() {
	select {
	case p.wake <- struct{}{}:
	default: // a token is already waiting, and the next evaluation reads all changes
	}
}

const (
	idle       = 10 * time.Second // the longest pause between two evaluations
	retryAfter = time.Second      // after a failed request to this cluster's API server
)

// run evaluates the peer until ctx ends.
func (p *peer) run(ctx context.Context) {
	defer close(p.ended)
	if p.after != nil {
		<-p.after
	}
	select {
	case <-ctx.Done():
	case <-p.registry.begun:
	}
	for ctx.Err() == nil {
		pause := p.step(ctx)
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-time.After(pause):
		}
	}
	p.registry.mu.RLock()
	old, left := p.connection, p.left
	p.registry.mu.RUnlock()
	old.stop()
	forgetMetrics(p.id)
	if left {
		p.forget(p.registry.ctx)
	}
}

// step evaluates the peer, and returns the pause until the next call if nothing changes.
func (p *peer) step(ctx context.Context) time.Duration {
	p.reconnect(ctx)
	p.loadLease(ctx)
	p.recallTargets(ctx)
	return min(p.tendToken(), p.evaluate(), p.publish(ctx), p.outlast(p.leavesOnPurpose(ctx)), idle)
}

// reconnect connects with the peer's kubeconfig, unless that connection exists. Contents stay.
func (p *peer) reconnect(ctx context.Context) {
	p.registry.mu.RLock()
	of, fault := p.accessLocked()
	old, skip := p.connection, p.refused != "" || !p.missing.IsZero()
	p.registry.mu.RUnlock()
	if skip || p.isUsed(of, fault) {
		return
	}
	c, err := p.connect(of, fault, old)
	if c != nil && c == old {
		return
	}
	old.stop()
	p.registry.mu.Lock()
	p.connection, p.broken = c, err
	p.renewal.running = false // it ended with the old connection
	p.registry.mu.Unlock()
	if err == nil {
		c.start(ctx)
	}
}

// evaluate updates the peer's condition and state. It returns the pause until the next call.
func (p *peer) evaluate() time.Duration {
	s := p.registry
	s.mu.Lock()
	if p.left {
		s.mu.Unlock()
		return idle
	}
	moved, held := p.adoptLocked()
	p.setConditionLocked()
	p.describeTokenLocked()
	before, old := p.state, p.contents
	changed, others := p.useContentsLocked()
	sight := p.observeLocked()
	again := p.setStateLocked(sight)
	if p.condition.connected && p.state == Expired {
		until := s.options.Now().Add(p.record.Remaining(sight.Now).Duration).UTC().Format(time.RFC3339)
		p.condition.message += fmt.Sprintf("; the connection was lost %d times. Its endpoints return at %s if it stays connected", p.record.Returns, until)
	}
	if p.condition.reason != Syncing && (!p.condition.connected || p.state == Active) {
		delete(s.awaited, p.id)
		s.settleLocked()
	}
	if !p.missing.IsZero() {
		p.condition.reason, p.condition.message = SecretMissing, p.missingLocked()
	}
	names := p.changesLocked(before, old, changed, others)
	p.reportRefusalsLocked()
	p.reportBudgetLocked()
	s.mu.Unlock()
	if moved {
		s.notifyAll()
	}
	s.call(names)
	if changed || before != p.state {
		s.callState(p.id)
	}
	if sight.unsettled() {
		again.Duration = min(again.Duration, recheck)
	}
	if held > 0 {
		again.Duration = min(again.Duration, held)
	}
	return max(again.Duration, time.Millisecond)
}

// adoptLocked lets what the peer announces take effect, if there is a connection.
func (p *peer) adoptLocked() (changed bool, pause time.Duration) {
	if p.connection == nil {
		return false, 0
	}
	return p.connection.adoptLocked(p.registry.options.Now())
}

// changesLocked returns the names that change by an evaluation: all of them with another state or other properties of the peer, otherwise
// those of which it has something else, and others, which it may export now or may not any more.
func (p *peer) changesLocked(before PeerState, old *contents, changed bool, others []types.NamespacedName) (names []types.NamespacedName) {
	switch {
	case p.contents == nil:
		return nil
	case changed || before != p.state || old == nil:
		p.contents.later = nil
		names = sortedNames(p.contents.allNames())
	case old != p.contents:
		names = append(others, sortedNames(differences(old, p.contents))...)
	default:
		names = others
	}
	moved := changed || len(others) > 0
	if p.retarget = p.retarget || moved; moved || old != p.contents {
		names = append(names, p.recountLocked()...)
	}
	return names
}

// useContentsLocked chooses the contents in use. It returns what learnLocked does.
func (p *peer) useContentsLocked() (changed bool, others []types.NamespacedName) {
	if p.connection != nil {
		p.connection.contents.watched.note(p.condition.reason == Connected, p.registry.options.Now())
	}
	if !p.condition.connected {
		p.detachLocked()
		return false, nil
	}
	p.contents = p.connection.contents
	return p.learnLocked()
}

// learnLocked reads what a peer announces beside its ID, while the peer is connected. It reports whether its properties have
// changed, and returns the names that it exports now, or does not any more. What was read stays when the connection ends.
func (p *peer) learnLocked() (changed bool, others []types.NamespacedName) {
	found := p.connection.member
	if p.announced.Same(found) {
		return false, nil
	}
	p.announced = found
	properties, exports := found.AllProperties(), found.Namespaces()
	changed = !maps.Equal(p.properties, properties)
	p.properties = properties
	if before := p.exports; (before == nil) != (exports == nil) || !maps.Equal(before, exports) {
		for name := range p.contents.allNames() {
			p.exports = before
			was := p.selectedLocked(name)
			if p.exports = exports; p.selectedLocked(name) != was {
				others = append(others, name)
			}
		}
		p.exports = exports
	}
	return changed, others
}

// setConditionLocked updates the condition of the connection.
func (p *peer) setConditionLocked() {
	reason, message := p.conditionLocked()
	if silent, text := p.controllerLocked(reason); silent != "" {
		reason, message = silent, text
	}
	// An edit of the limits that went wrong, or a busy API server, does not cost the endpoints of the peer.
	inUse := (reason == InvalidLimits || reason == Stale) && p.contents == p.connection.contents
	p.condition = p.orStale(condition{reason: reason, message: harmless(message), connected: reason == Connected || inUse})
	if p.connection != nil {
		p.version = cmp.Or(p.connection.member.Version, p.version)
	}
	if reason == Connected {
		p.condition.uid = p.connection.member.UID
	}
}

// setStateLocked updates record and state. It returns the pause until the next call.
func (p *peer) setStateLocked(sight Observation) metav1.Duration {
	if p.waited && !p.adopted { // The time without a Secret does not count.
		if p.record.LastConnected.IsZero() {
			p.record.Began = sight.Now
		} else {
			p.record.LastConnected = sight.Now
		}
	}
	p.waited = p.adopted
	p.record = p.record.Observe(sight)
	if p.condition.reason != Syncing { // a restart or a new kubeconfig is not an outage
		p.wasAlive, p.wasDead = sight.Connected, sight.Dead
	}
	switch {
	case p.refused != "":
		p.state = Dead
	case p.adopted:
		p.state = Unknown // its data stays until outlast removes it
	default:
		var left metav1.Duration
		if p.state, left = p.record.State(sight); left.Duration > 0 {
			return left
		}
	}
	return metav1.Duration{Duration: idle}
}

// publish writes the result of evaluate to the metrics, an event and the Lease.
//
// A peer that changes all the time is told of once in retryAfter. That it is lost is told at once, the first time.
func (p *peer) publish(ctx context.Context) time.Duration {
	p.measure()
	if left := p.pace(p.registry.options.Now()); left > 0 {
		return left
	}
	p.announce()
	if !p.lease.loaded { // A write would replace the record that could not be read.
		return retryAfter
	}
	pause, err := p.writeLease(ctx)
	if err != nil {
		p.lease.told = p.registry.options.Now()
		p.leaseTrouble(ctx, "cannot write the Lease of a peer", err)
		return retryAfter
	}
	p.lease.troubled = false
	return pause
}
