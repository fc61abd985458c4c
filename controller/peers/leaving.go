package peers

import (
	"context"
	"errors"
	"slices"
	"time"
)

// The first and the longest pause between two checks whether the imports of a peer that has left
// are removed. Each check reads all imports.
const (
	firstLook = 100 * time.Millisecond
	lastLook  = idle
)

// forget deletes the Lease of a peer that has left, when no import records the peer any longer.
// Until then the Lease is marked, so that a controller that starts meanwhile continues the removal.
// Without the mark that controller would wait for a Secret, as for every peer that only imports
// record.
func (p *peer) forget(ctx context.Context) {
	s := p.registry
	p.retry(ctx, "cannot mark the Lease of a peer that has left", p.markLease)
	for pause := firstLook; ctx.Err() == nil && !s.joined(p.id) && s.remembers(ctx, p.id); pause = min(2*pause, lastLook) {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	p.retry(ctx, "cannot delete the Lease of a peer that has left", func(ctx context.Context) error { return s.deleteLease(ctx, p.id) })
}

var errLeaseUnread = errors.New("the Lease cannot be read")

// markLease marks the Lease. It does nothing for a refused peer: its data is not used, so there
// is nothing to remove.
func (p *peer) markLease(ctx context.Context) error {
	p.registry.mu.RLock()
	refused := p.refused != ""
	p.registry.mu.RUnlock()
	if refused {
		return nil
	}
	if p.loadLease(ctx); !p.lease.loaded {
		return errLeaseUnread
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	p.condition = condition{reason: Leaving, message: "this peer has left: its imports and endpoints are being removed"}
	l := p.wantedLease()
	l.Annotations[annotationLeaving] = "true"
	if err := p.putLease(ctx, l); !errors.Is(err, errForeignLease) {
		return err
	}
	return nil
}

// retry calls f until it succeeds, the peer joins again, or ctx ends. A peer that joins again adopts the Lease.
func (p *peer) retry(ctx context.Context, trouble string, f func(context.Context) error) {
	for ctx.Err() == nil && !p.registry.joined(p.id) {
		err := f(ctx)
		if err == nil {
			return
		}
		p.leaseTrouble(ctx, trouble, err)
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

// joined reports whether a peer with that ID exists. It is true if a peer that has left is back.
func (r *Registry) joined(id string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.peers[id] != nil
}

// remembers reports whether imports record exports of a peer, or whether that is unknown.
func (r *Registry) remembers(ctx context.Context, id string) bool {
	if r.options.Remembered == nil {
		return false
	}
	all, err := r.options.Remembered(ctx)
	return err != nil || slices.Contains(all, id)
}
