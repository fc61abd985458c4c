package peers

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Between two looks whether the imports of a peer that has left are removed: the first pause, and the longest. Each look reads all imports.
const (
	firstLook = 100 * time.Millisecond
	lastLook  = idle
)

// forget deletes the Lease of a peer that has left, once no import remembers the peer. Until then the Lease is marked: a controller that starts
// meanwhile goes on with the removal. Without the mark it would wait for a Secret, as of any peer that only imports remember.
func (p *peer) forget(ctx context.Context) {
	s := p.registry
	p.retry(ctx, "The Lease of a peer that has left cannot be marked", p.markLease)
	for pause := firstLook; ctx.Err() == nil && !s.joined(p.id) && s.remembers(ctx, p.id); pause = min(2*pause, lastLook) {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	p.retry(ctx, "The Lease of a peer that has left cannot be deleted", func(ctx context.Context) error { return s.deleteLease(ctx, p.id) })
}

// markLease marks the Lease. Where nothing can have come from the peer, nothing is removed.
func (p *peer) markLease(ctx context.Context) error {
	p.registry.mu.RLock()
	refused := p.refused != ""
	p.registry.mu.RUnlock()
	if refused {
		return nil
	}
	if err := p.loadLease(ctx); errors.Is(err, errForeignLease) || p.lease.foreign {
		return nil
	} else if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	p.condition = condition{Leaving, "this peer has left: what came from it is being removed", false}
	l := p.wantedLease()
	l.Annotations[annotationLeaving] = "true"
	return p.putLease(ctx, l)
}

// retry calls f until it succeeds, or ctx ends.
func (p *peer) retry(ctx context.Context, trouble string, f func(context.Context) error) {
	for ctx.Err() == nil {
		err := f(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			p.registry.options.Log.Error(err, trouble, "peer", p.id)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

// joined is true where a peer of that id is there: one that has left and came back.
func (r *Registry) joined(id string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.peers[id] != nil
}

// remembers is true where imports have something of a peer, or where that is not known.
func (r *Registry) remembers(ctx context.Context, id string) bool {
	if r.options.Remembered == nil {
		return false
	}
	all, err := r.options.Remembered(ctx)
	return err != nil || slices.Contains(all, id)
}
