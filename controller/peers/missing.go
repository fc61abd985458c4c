package peers

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// annotationLeaving with the value "true" on a peer's Secret means that the Secret is about to be
// deleted because the peer leaves. On the peer's Lease it means the same, for a controller that did
// not run at that time or did not receive the marked Secret. `kubectl multicluster leave` sets both.
const annotationLeaving = "clusterset-dns.io/leaving"

// grace is how long a peer stays unchanged without its Secret. Secrets are deleted and created
// again by mistake, and by tools that replace a Secret to change it: Helm, Argo CD, External
// Secrets. Absent is not empty.
const grace = time.Minute

// restoreGrace is how long a peer stays unchanged if its Secret is missing when the controller
// starts. The controller was installed again, perhaps after its namespace was deleted with all
// Secrets and Leases. A person then creates the Secrets again, step by step.
const restoreGrace = 10 * time.Minute

// maxRemembered limits the number of clusters that only imports record. Users with permission to
// write imports can add such records.
const maxRemembered = 100

// missLocked records that a peer's Secret, or the label of the Secret, was deleted. The peer stays
// unchanged.
func (p *peer) missLocked() { p.missing = p.registry.options.Now() }

// foundLocked sets a peer's Secret, which may be a new object.
func (p *peer) foundLocked(of secret) {
	p.secrets++
	p.secret, p.missing, p.grace, p.adopted = of, time.Time{}, p.registry.grace, false
	p.setLimitsLocked()
}

// leavesOnPurpose reports whether a peer has no Secret and a marked Lease.
func (p *peer) leavesOnPurpose(ctx context.Context) bool {
	p.registry.mu.RLock()
	missing := !p.missing.IsZero()
	p.registry.mu.RUnlock()
	if !missing {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	found, err := p.registry.leaseOf(ctx, p.id)
	// After an error the peer stays, and the next step checks again.
	return err == nil && found.Annotations[annotationLeaving] == "true"
}

// outlast removes a peer whose Secret has been missing for the grace period or was deleted on
// purpose. It returns the pause until the next call. While the controller's own namespace is being
// deleted or does not exist, missing Secrets have no effect: they are deleted before the controller
// is.
func (p *peer) outlast(onPurpose bool) time.Duration {
	s := p.registry
	s.mu.Lock()
	if p.left || p.missing.IsZero() {
		s.mu.Unlock()
		return idle
	}
	if !s.home.lasts {
		p.missLocked()
		s.mu.Unlock()
		return retryAfter
	}
	if left := p.grace - s.options.Now().Sub(p.missing); left > 0 && !onPurpose {
		s.mu.Unlock()
		return left
	}
	names := s.leaveLocked(p)
	s.mu.Unlock()
	s.options.Log.Info("peer without a Secret has left", "peer", p.id)
	s.call(names)
	s.callState(p.id)
	return idle
}

// missingLocked returns the message for a peer without a Secret.
func (p *peer) missingLocked() string {
	s := p.registry
	if !s.home.lasts {
		return fmt.Sprintf("the Secret was deleted, and the namespace %s is being deleted: everything from this peer stays unchanged", s.options.Namespace)
	}
	return fmt.Sprintf("the Secret %s/%s with the label %s was deleted. Everything from this peer stays unchanged until %s, and is then removed. "+
		"To keep it, create the Secret again before then, for example with `kubectl multicluster join %s --from %s`. To remove the peer at once, run `kubectl multicluster leave %s --from %s`, with the contexts of this cluster and the peer",
		s.options.Namespace, p.id, mcs.LabelPeer, p.missing.Add(p.grace).UTC().Format(time.RFC3339), s.options.Home, p.id, s.options.Home, p.id)
}

// adopt creates peers for the clusters that have no Secret at the start and are recorded in Leases
// or imports: their Secrets were deleted while no controller ran. It retries until it has read the
// Leases and the imports. Otherwise the imports from such a peer would be deleted.
func (r *Registry) adopt(ctx context.Context) {
	for failed := false; ctx.Err() == nil; failed = true {
		var list coordinationv1.LeaseList
		err := r.options.Live.List(ctx, &list, client.InNamespace(r.options.Namespace))
		var remembered []string
		if err == nil && r.options.Remembered != nil {
			remembered, err = r.options.Remembered(ctx)
		}
		if err == nil {
			r.adoptAll(list.Items, remembered)
			return
		}
		if !failed && ctx.Err() == nil {
			r.options.Log.Error(err, "cannot list the Leases of peers or the imports; retrying")
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

// adoptAll runs before the first plan, so no name has to be planned again. Records in imports can
// be forged, so their number is limited, and invalid IDs are ignored.
func (r *Registry) adoptAll(leases []coordinationv1.Lease, remembered []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range leases {
		if id := leases[i].Name; isOurs(&leases[i]) && r.peers[id] == nil {
			r.adoptLocked(id)
		}
	}
	adopted := 0
	for _, id := range remembered {
		if refused, _ := r.refuse(id); refused != "" || r.peers[id] != nil {
			continue
		}
		if adopted == maxRemembered {
			r.options.Log.Info("imports record exports of too many clusters that are not peers; removing those of the others", "limit", maxRemembered)
			break
		}
		r.adoptLocked(id)
		adopted++
		r.options.Log.Info("imports record exports of a cluster that is not a peer: it has neither a Secret nor a Lease. Everything from it stays for a "+
			"while. To keep it, create the Secret", "peer", id, "for", restoreGrace.String())
	}
	r.adopted = true
	r.settleLocked()
}

// adoptLocked creates a peer. A refused peer leaves at once: its data is not used.
func (r *Registry) adoptLocked(id string) {
	p := r.joinLocked(id, secret{})
	p.grace, p.adopted = restoreGrace, true
	p.missLocked()
	if p.refused != "" {
		r.leaveLocked(p)
	}
}
