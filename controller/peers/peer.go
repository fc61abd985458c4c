package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// peer is another cluster of the clusterset, from the day that its Secret is there until it is gone for good.
type peer struct {
	registry *Registry
	id       string
	cancel   context.CancelFunc
	after    <-chan struct{} // what has to end first; may be nil
	ended    chan struct{}
	wake     chan struct{} // holds a token while there is something to look at

	// guarded by the Registry's mu:
	refused, refusal string // the reason and message for which its id can be no peer's
	secret           secret
	secrets          int           // how often it has changed
	missing          time.Time     // since when its Secret is gone; zero while it is there
	grace            time.Duration // how long it may be missing
	adopted          bool          // it was missing at the start, and is still
	left             bool          // it is no peer any more
	connection       *connection
	broken           error     // its kubeconfig cannot be used
	contents         *contents // that it counts by; nil until one is complete
	state            PeerState

	// of run only:
	kubeconfig   []byte // of connection or broken
	begun        bool   // a connection was made at all
	waited       bool   // it was adopted when it was looked at before
	record       PeerRecord
	lease        lease
	condition    condition
	wasConnected bool // connected, when it was looked at before
}

// notify has the peer evaluated soon.
func (p *peer) notify() {
	select {
	case p.wake <- struct{}{}:
	default: // it has not yet been looked at, and all is seen then
	}
}

func (r *Registry) notifyAll() {
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.notifyAllLocked()
}

const (
	idle       = 10 * time.Second // between two looks while nothing happens
	retryAfter = time.Second      // a request to the own cluster
)

// run is the peer's life.
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
	peerConnected.DeleteLabelValues(p.id)
	if left {
		p.forget(p.registry.ctx)
	}
}

// step evaluates the peer, and returns after how long to do so again if nothing happens.
func (p *peer) step(ctx context.Context) time.Duration {
	p.reconnect(ctx)
	err := p.loadLease(ctx)
	if errors.Is(err, errForeignLease) {
		p.registry.mu.Lock()
		p.refused, p.refusal = InvalidID, err.Error()
		p.registry.mu.Unlock()
		err = nil
	}
	if err != nil {
		p.leaseTrouble(ctx, "A peer's Lease cannot be read", err)
		return retryAfter
	}
	return min(p.evaluate(), p.publish(ctx), p.outlast(p.leavesOnPurpose(ctx)), idle)
}

// reconnect connects with the Secret's kubeconfig, unless it is connected with that already. The contents stay.
func (p *peer) reconnect(ctx context.Context) {
	p.registry.mu.RLock()
	kubeconfig, old, skip := p.secret.kubeconfig, p.connection, p.refused != "" || !p.missing.IsZero()
	p.registry.mu.RUnlock()
	if skip || p.begun && bytes.Equal(kubeconfig, p.kubeconfig) {
		return
	}
	old.stop()
	c, err := newConnection(p, kubeconfig)
	p.begun, p.kubeconfig = true, kubeconfig
	p.registry.mu.Lock()
	p.connection, p.broken = c, err
	p.registry.mu.Unlock()
	if err == nil {
		c.start(ctx)
	}
}

// evaluate finds the peer's condition and state, and returns when to do so again.
func (p *peer) evaluate() time.Duration {
	s := p.registry
	s.mu.Lock()
	if p.left {
		s.mu.Unlock()
		return idle
	}
	reason, message := p.conditionLocked()
	p.condition = condition{reason, harmless(message), reason == Connected}
	before, old := p.state, p.contents
	if p.condition.connected {
		p.contents = p.connection.contents
	} else {
		p.detachLocked()
	}
	sight := Observation{
		Now: metav1.NewTime(s.options.Now()), Timeout: metav1.Duration{Duration: s.options.Timeout},
		Connected: p.condition.connected, WasConnected: p.wasConnected, Known: p.contents != nil,
	}
	again := p.setStateLocked(sight)
	if p.condition.connected && p.state == Expired {
		until := s.options.Now().Add(p.record.Remaining(sight.Now).Duration).UTC().Format(time.RFC3339)
		p.condition.message += fmt.Sprintf("; it came and went %d times, and counts again at %s if it stays", p.record.Returns, until)
	}
	if p.condition.reason != Syncing && (!p.condition.connected || p.state == Active) {
		delete(s.awaited, p.id)
		s.settleLocked()
	}
	if !p.missing.IsZero() {
		p.condition.reason, p.condition.message = SecretMissing, p.missingLocked()
	}
	names, changed := changesLocked(before, p.state, old, p.contents), before != p.state
	s.mu.Unlock()
	s.call(names)
	if changed {
		s.callState(p.id)
	}
	return max(again.Duration, time.Millisecond)
}

// setStateLocked brings record and state up to date, and returns when to do so again.
func (p *peer) setStateLocked(sight Observation) metav1.Duration {
	if p.waited && !p.adopted { // The time in which nobody could connect does not count against it.
		if p.record.LastConnected.IsZero() {
			p.record.Began = sight.Now
		} else {
			p.record.LastConnected = sight.Now
		}
	}
	p.waited = p.adopted
	p.record = p.record.Observe(sight)
	if p.condition.reason != Syncing { // as after a restart or with a new kubeconfig, which are no absence of the peer
		p.wasConnected = p.condition.connected
	}
	switch {
	case p.refused != "":
		p.state = Expired
	case p.adopted:
		p.state = Unknown // What is here of it stays until outlast ends that.
	default:
		var left metav1.Duration
		if p.state, left = p.record.State(sight); left.Duration > 0 {
			return left
		}
	}
	return metav1.Duration{Duration: idle}
}

// publish writes what evaluate found: to the metric, an event and the Lease. It returns when to do so again.
func (p *peer) publish(ctx context.Context) time.Duration {
	connected := 0.0
	if p.condition.connected {
		connected = 1
	}
	peerConnected.WithLabelValues(p.id).Set(connected)
	p.announce()
	pause, err := p.writeLease(ctx)
	if err != nil {
		p.leaseTrouble(ctx, "A peer's Lease cannot be written", err)
		return retryAfter
	}
	p.lease.troubled = false
	return pause
}

// leaseTrouble logs the first of several failures: it is tried each second, and the own API server may be away for hours.
func (p *peer) leaseTrouble(ctx context.Context, what string, err error) {
	if ctx.Err() != nil || p.lease.troubled {
		return
	}
	p.lease.troubled = true
	p.registry.options.Log.Error(err, what+", which is tried again and again", "peer", p.id)
}

// announce tells of a change of the condition, once. That a connection is being made is no news.
func (p *peer) announce() {
	if p.condition.reason == Syncing || p.condition.reason == p.lease.reported {
		return
	}
	p.lease.reported = p.condition.reason
	kind := corev1.EventTypeWarning
	if p.condition.reason == Connected {
		kind = corev1.EventTypeNormal
	}
	p.registry.options.Log.Info("A peer's condition has changed", "peer", p.id, "reason", p.condition.reason, "message", p.condition.message)
	p.registry.options.Events.Eventf(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.registry.options.Namespace, Name: p.id, UID: p.secretUID()},
	}, nil, kind, p.condition.reason, "Connect", "%s", p.condition.message)
}

func (p *peer) secretUID() types.UID {
	p.registry.mu.RLock()
	defer p.registry.mu.RUnlock()
	return p.secret.uid
}
