package peers

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Labels and annotations of a peer's Lease. With them `kubectl get leases -L` prints a table of
// peers.
const (
	labelConnected    = "clusterset-dns.io/connected"
	labelReason       = "clusterset-dns.io/reason"
	annotationMessage = "clusterset-dns.io/message"
	labelPath         = "clusterset-dns.io/data-path"
	annotationPath    = "clusterset-dns.io/data-path-message"
	// annotationBeat is the last heartbeat of the peer's controller.
	annotationBeat = "clusterset-dns.io/heartbeat"
	// annotationExpiry is when the token for the peer expires (RFC 3339, UTC). It is absent if it never does.
	annotationExpiry = "clusterset-dns.io/token-expiry"
	// annotationTrouble is what is wrong with the token, with the command that fixes it, or "".
	annotationTrouble = "clusterset-dns.io/token-message"
)

// lease is the state of a peer's Lease.
type lease struct {
	loaded   bool
	told     time.Time // time of the last event or write, also of one that failed
	hurried  time.Time // when a loss of the peer was told at once
	reported string    // the reason of the last event
	// reportedPath is the verdict of the last event about the way to the endpoints.
	reportedPath datapath.Verdict
	tokenFailed  bool       // the last event about the token was a failure
	troubled     bool       // the last read or write failed
	at           time.Time  // time of the last write
	version      string     // the resourceVersion of the last write; "" if the Lease must be read first
	written      condition  // the written condition
	record       PeerRecord // the written record
	secrets      int        // the value of peer.secrets at the last write
}

const (
	conditionTrue  = "True"
	conditionFalse = "False"
	writeTimeout   = 5 * time.Second
	// messageEvery is the shortest pause before a write that changes only the message or the heartbeat.
	messageEvery = 10 * time.Second
)

// pace returns how long the next event, and the next write of the Lease, have to wait.
func (p *peer) pace(now time.Time) time.Duration {
	w := &p.lease
	left := w.told.Add(retryAfter).Sub(now)
	if left <= 0 || left > retryAfter { // the clock was set back
		return 0
	}
	if lost := w.written.connected && !p.condition.connected; lost && now.Sub(w.hurried) >= messageEvery {
		w.hurried = now
		return 0
	}
	return left
}

// writeLease writes a changed reason, record or Secret at once. It writes a changed message, or a new
// heartbeat, after messageEvery, and renews the Lease of a connected peer at intervals of renewEvery. It
// returns the pause until the next call.
func (p *peer) writeLease(ctx context.Context) (time.Duration, error) {
	now, w := p.registry.options.Now(), &p.lease
	since := now.Sub(w.at)
	stays, secrets := p.stays()
	due := w.at.IsZero() || p.condition.reason != w.written.reason || p.record.Began != w.record.Began || p.record.Returns != w.record.Returns ||
		p.condition.path != w.written.path || secrets != w.secrets
	every := p.registry.renewEvery
	switch {
	case due:
	case p.condition != w.written:
		every = min(every, messageEvery)
	case !p.condition.connected:
		return idle, nil // Nothing has to be renewed until something changes.
	}
	if !due && since < every {
		return max(every-since, time.Millisecond), nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var unset []string
	if stays {
		unset = append(unset, annotationLeaving)
	}
	if p.condition.tokenExpiry == "" {
		unset = append(unset, annotationExpiry)
	}
	if err := p.putLease(ctx, p.wantedLease(), unset...); err != nil {
		return 0, err
	}
	w.at, w.told, w.written, w.record, w.secrets = now, now, p.condition, p.record, secrets
	return p.registry.renewEvery, nil
}

// putLease writes the Lease, unless another program has created a Lease with that name. It writes over
// its own last write without reading the Lease. If others have written since, it reads the Lease first.
func (p *peer) putLease(ctx context.Context, l *coordinationv1.Lease, unset ...string) error {
	if p.lease.version != "" {
		l.ResourceVersion = p.lease.version
		if err := p.putVersion(ctx, l, unset...); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		l.ResourceVersion = ""
	}
	found, err := p.registry.leaseOf(ctx, p.id)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case !isOurs(found):
		return errForeignLease
	default:
		l.ResourceVersion = found.ResourceVersion
	}
	return p.putVersion(ctx, l, unset...)
}

// putVersion writes the Lease if it still has the resourceVersion of l, and remembers the new one.
func (p *peer) putVersion(ctx context.Context, l *coordinationv1.Lease, unset ...string) error {
	p.lease.version = ""
	if err := p.registry.options.Writer.PutLease(ctx, l, unset...); err != nil {
		return err
	}
	p.lease.version = l.ResourceVersion
	return nil
}

// stays reports whether the peer has a Secret without the mark. An earlier mark on the Lease is
// then removed. The second result is how often the Secret has changed.
func (p *peer) stays() (stays bool, secrets int) {
	p.registry.mu.RLock()
	defer p.registry.mu.RUnlock()
	return p.missing.IsZero() && !p.secret.leaving, p.secrets
}

func (p *peer) wantedLease() *coordinationv1.Lease {
	connected := conditionFalse
	if p.condition.connected {
		connected = conditionTrue
	}
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.registry.options.Namespace,
			Name:      p.id,
			Labels:    map[string]string{mcs.LabelPeer: "", labelConnected: connected, labelReason: p.condition.reason, labelPath: string(p.condition.path)},
			Annotations: map[string]string{
				annotationMessage: p.condition.message, annotationPath: p.condition.pathMessage, annotationBeat: p.condition.beat,
				annotationTrouble: p.condition.tokenMessage,
			},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(p.id), AcquireTime: new(metav1.NewMicroTime(p.record.Began.Time)), LeaseTransitions: new(p.record.Returns),
		},
	}
	if p.condition.uid != "" { // The last one stays in the Lease.
		l.Annotations[mcs.AnnotationClusterUID] = p.condition.uid
	}
	if p.condition.tokenExpiry != "" {
		l.Annotations[annotationExpiry] = p.condition.tokenExpiry
	}
	if !p.record.LastConnected.IsZero() {
		l.Spec.RenewTime = new(metav1.NewMicroTime(p.record.LastConnected.Time))
	}
	if p.registry.options.Timeout > 0 {
		l.Spec.LeaseDurationSeconds = new(int32(max(1, p.registry.options.Timeout/time.Second)))
	}
	return l
}

// deleteLease deletes the Lease of a peer. It does not delete a Lease of another program.
func (r *Registry) deleteLease(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	found, err := r.leaseOf(ctx, id)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !isOurs(found) {
		return nil
	}
	return r.options.Writer.DeleteLease(ctx, found)
}

func (r *Registry) leaseOf(ctx context.Context, id string) (*coordinationv1.Lease, error) {
	l := new(coordinationv1.Lease)
	return l, r.options.Live.Get(ctx, types.NamespacedName{Namespace: r.options.Namespace, Name: id}, l)
}

// leaseTrouble reports only the first of several failures: a retry follows each second. A Lease only shows the state of
// a peer, and keeps it over a restart. Nothing else depends on it.
func (p *peer) leaseTrouble(ctx context.Context, what string, err error) {
	if ctx.Err() != nil || p.lease.troubled {
		return
	}
	p.lease.troubled = true
	p.registry.options.Log.Error(err, what+", retrying", "peer", p.id)
	p.emit(false, "LeaseNotWritten", harmless(fmt.Sprintf("%s: %v", what, err)))
}

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
