package peers

import (
	"context"
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

var errForeignLease = errors.New("a Lease with the name of the peer exists for another purpose, without the label " + mcs.LabelPeer +
	", so the state of the peer is shown nowhere: delete that Lease, or set another --cluster-id in the peer, and name the Secret after it")

// isOurs reports whether a Lease is the Lease of a peer. The label can have been removed while no
// controller ran, so any other label or annotation of the controller is also sufficient.
func isOurs(l *coordinationv1.Lease) bool {
	for _, marks := range []map[string]string{l.Labels, l.Annotations} {
		for _, key := range []string{mcs.LabelPeer, labelConnected, labelReason, annotationMessage} {
			if _, ours := marks[key]; ours {
				return true
			}
		}
	}
	return false
}

// loadLease reads the peer's record from its Lease, once. Until that succeeds, and without a Lease, the record is that
// of this process.
func (p *peer) loadLease(ctx context.Context) {
	if p.lease.loaded {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	now := metav1.NewTime(p.registry.options.Now())
	found, err := p.registry.leaseOf(ctx, p.id)
	if err != nil && !apierrors.IsNotFound(err) {
		p.leaseTrouble(ctx, "cannot read the Lease of a peer", err)
	} else {
		p.lease.loaded = true
	}
	switch first := p.record.Began.IsZero(); {
	case err == nil && isOurs(found):
		p.restore(found, now, first)
	case first:
		p.record.Began = now
	}
}

// restore takes over what the last controller wrote. first means that the peer was not evaluated yet.
func (p *peer) restore(found *coordinationv1.Lease, now metav1.Time, first bool) {
	since := p.record.LastConnected
	p.record = readRecord(found, now)
	if !since.IsZero() {
		p.record.LastConnected = since
	}
	if !first {
		return
	}
	p.lease.tokenFailed = found.Annotations[annotationTrouble] != ""
	p.lease.reported, p.lease.reportedPath = found.Labels[labelReason], datapath.Verdict(found.Labels[labelPath])
	// A restart of this process is no sign of life of a controller that was silent before.
	wasDead := p.lease.reportedPath == datapath.Dead || p.lease.reportedPath == datapath.Returning
	p.registry.mu.Lock()
	p.registry.prober.mu.Lock()
	p.beat = heartbeat{value: found.Annotations[annotationBeat], since: now.Time, at: now.Time, mute: found.Labels[labelReason] == ControllerSilent}
	if wasDead {
		// Its endpoints return when one of them answers, as they would without a restart. Its death is only assumed: a Lease proves nothing.
		p.way.Restore(now.Time)
	}
	p.registry.prober.mu.Unlock()
	p.registry.mu.Unlock()
	if found.Labels[labelConnected] == conditionTrue || p.lease.reportedPath == datapath.Cut {
		// The peer was connected, or its endpoints answered, when the last controller stopped. The time
		// since then does not count.
		p.wasAlive, p.record.LastConnected = true, now
	}
	p.wasDead = wasDead
}

// readRecord replaces times after now by now: the clock may have been set back.
func readRecord(l *coordinationv1.Lease, now metav1.Time) PeerRecord {
	r := PeerRecord{Began: now}
	if at := l.Spec.AcquireTime; at != nil && at.Time.Before(now.Time) {
		r.Began = metav1.NewTime(at.Time)
	}
	if at := l.Spec.RenewTime; at != nil {
		r.LastConnected = now
		if at.Time.Before(now.Time) {
			r.LastConnected = metav1.NewTime(at.Time)
		}
	}
	if n := l.Spec.LeaseTransitions; n != nil {
		r.Returns = *n
	}
	return r
}
