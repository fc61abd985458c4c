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
	set    *Set
	id     string
	cancel context.CancelFunc
	after  <-chan struct{} // what has to end first; may be nil
	ended  chan struct{}
	wake   chan struct{} // holds a token while there is something to look at

	// guarded by the Set's mu:
	refused, refusal string // the reason and message for which its id can be no peer's
	secret           secret
	missing          time.Time     // since when its Secret is gone; zero while it is there
	grace            time.Duration // how long it may be missing
	adopted          bool          // it was missing at the start, and is still
	left             bool          // it is no peer any more
	link             *link
	broken           error // its kubeconfig cannot be used
	view             *view // that it counts by; nil until one is complete
	standing         PeerState

	// of run only:
	linked []byte // the kubeconfig that link or broken are of
	begun  bool   // it was linked at all
	waited bool   // it was adopted when it was looked at before
	record PeerRecord
	lease  lease
	now    condition
	was    bool // connected, when it was looked at before
}

// condition is what is said of a peer.
type condition struct {
	reason, message string
	connected       bool // also where the reason is about something else
}

// look has the peer looked at soon.
func (p *peer) look() {
	select {
	case p.wake <- struct{}{}:
	default: // it has not yet been looked at, and all is seen then
	}
}

func (s *Set) look() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.lookLocked()
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
	case <-p.set.begun:
	}
	for ctx.Err() == nil {
		pause := p.step(ctx)
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-time.After(pause):
		}
	}
	p.set.mu.RLock()
	old, left := p.link, p.left
	p.set.mu.RUnlock()
	old.stop()
	peerConnected.DeleteLabelValues(p.id)
	if left {
		p.set.removeLease(p.set.ctx, p.id)
	}
}

// step looks at the peer, and says how long nothing more is to do if nothing happens.
func (p *peer) step(ctx context.Context) time.Duration {
	p.relink(ctx)
	err := p.loadLease(ctx)
	if errors.Is(err, errForeignLease) {
		p.set.mu.Lock()
		p.refused, p.refusal = InvalidID, err.Error()
		p.set.mu.Unlock()
		err = nil
	}
	if err != nil {
		p.leaseTrouble(ctx, "A peer's Lease cannot be read", err)
		return retryAfter
	}
	return min(p.judge(), p.publish(ctx), p.outlast(p.leavesOnPurpose(ctx)), idle)
}

// relink connects as the Secret says, if that is not what is done already. The view stays.
func (p *peer) relink(ctx context.Context) {
	p.set.mu.RLock()
	kubeconfig, old, skip := p.secret.kubeconfig, p.link, p.refused != "" || !p.missing.IsZero()
	p.set.mu.RUnlock()
	if skip || p.begun && bytes.Equal(kubeconfig, p.linked) {
		return
	}
	old.stop()
	link, err := newLink(p, kubeconfig)
	p.begun, p.linked = true, kubeconfig
	p.set.mu.Lock()
	p.link, p.broken = link, err
	p.set.mu.Unlock()
	if err == nil {
		link.start(ctx)
	}
}

// judge finds the peer's condition and standing, and says when to do so again.
func (p *peer) judge() time.Duration {
	s := p.set
	s.mu.Lock()
	if p.left {
		s.mu.Unlock()
		return idle
	}
	reason, message := p.conditionLocked()
	p.now = condition{reason, harmless(message), reason == Connected}
	before, old := p.standing, p.view
	if p.now.connected {
		p.view = p.link.view
	} else {
		p.detachLocked()
	}
	sight := Observation{
		Now: metav1.NewTime(s.options.Now()), Timeout: metav1.Duration{Duration: s.options.Timeout},
		Connected: p.now.connected, Was: p.was, Known: p.view != nil,
	}
	again := p.weighLocked(sight)
	if p.now.connected && p.standing == Expired {
		until := s.options.Now().Add(p.record.Remaining(sight.Now).Duration).UTC().Format(time.RFC3339)
		p.now.message += fmt.Sprintf("; it came and went %d times, and counts again at %s if it stays", p.record.Returns, until)
	}
	if p.now.reason != Syncing && (!p.now.connected || p.standing == Active) {
		delete(s.awaited, p.id)
		s.settleLocked()
	}
	if !p.missing.IsZero() {
		p.now.reason, p.now.message = SecretMissing, p.missingLocked()
	}
	names, changed := changesLocked(before, p.standing, old, p.view), before != p.standing
	s.mu.Unlock()
	s.call(names)
	if changed {
		s.callStanding(p.id)
	}
	return max(again.Duration, time.Millisecond)
}

// weighLocked brings record and standing up to date, and says when to do so again.
func (p *peer) weighLocked(sight Observation) metav1.Duration {
	if p.waited && !p.adopted { // The time in which nobody could connect does not count against it.
		if p.record.Heard.IsZero() {
			p.record.Began = sight.Now
		} else {
			p.record.Heard = sight.Now
		}
	}
	p.waited = p.adopted
	p.record = p.record.Observe(sight)
	if p.now.reason != Syncing { // as after a restart or with a new kubeconfig, which are no absence of the peer
		p.was = p.now.connected
	}
	switch {
	case p.refused != "":
		p.standing = Expired
	case p.adopted:
		p.standing = Unknown // What is here of it stays until outlast ends that.
	default:
		var left metav1.Duration
		if p.standing, left = p.record.State(sight); left.Duration > 0 {
			return left
		}
	}
	return metav1.Duration{Duration: idle}
}

// publish says what judge found: in the metric, an event and the Lease. It says when to do so again.
func (p *peer) publish(ctx context.Context) time.Duration {
	connected := 0.0
	if p.now.connected {
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
	p.set.options.Log.Error(err, what+", which is tried again and again", "peer", p.id)
}

// announce tells of a change of the condition, once. That a connection is being made is no news.
func (p *peer) announce() {
	if p.now.reason == Syncing || p.now.reason == p.lease.told {
		return
	}
	p.lease.told = p.now.reason
	kind := corev1.EventTypeWarning
	if p.now.reason == Connected {
		kind = corev1.EventTypeNormal
	}
	p.set.options.Log.Info("A peer's condition has changed", "peer", p.id, "reason", p.now.reason, "message", p.now.message)
	p.set.events.Eventf(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.set.options.Namespace, Name: p.id, UID: p.linkedUID()},
	}, nil, kind, p.now.reason, "Connect", "%s", p.now.message)
}

func (p *peer) linkedUID() types.UID {
	p.set.mu.RLock()
	defer p.set.mu.RUnlock()
	return p.secret.uid
}
