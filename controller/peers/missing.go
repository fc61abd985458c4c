package peers

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// annotationLeaving, with the value "true" on a peer's Secret, means that the Secret is about to be deleted because the peer leaves. On the
// peer's Lease it means the same to a controller that did not run then, or that missed the Secret before. deploy/join.sh --leave sets both.
const annotationLeaving = "clusterset-dns.io/leaving"

// grace is how long a peer stays as it is without its Secret. Secrets are deleted and made again by mistake, and by tools that know no
// other way to change one: Helm, Argo CD, External Secrets. Absent is not empty.
const grace = time.Minute

// restoreGrace is how long a peer stays as it is whose Secret is missing when the controller starts. The controller was installed anew, perhaps
// after its namespace was deleted, Secrets and Leases with it, and a person makes them again, step by step.
const restoreGrace = 10 * time.Minute

// maxRemembered bounds the clusters that only imports remember: whoever may write imports writes that too.
const maxRemembered = 100

// missLocked notes that a peer's Secret, or its label, is gone. The peer stays as it is.
func (p *peer) missLocked() { p.missing = p.registry.options.Now() }

// foundLocked takes a peer's Secret, which may be a new one.
func (p *peer) foundLocked(of secret) {
	p.secrets++
	p.secret, p.missing, p.grace, p.adopted = of, time.Time{}, p.registry.grace, false
}

// leavesOnPurpose is true for a peer without a Secret whose Lease is marked.
func (p *peer) leavesOnPurpose(ctx context.Context) bool {
	p.registry.mu.RLock()
	missing := !p.missing.IsZero()
	p.registry.mu.RUnlock()
	if !missing || p.lease.foreign {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	found, err := p.registry.leaseOf(ctx, p.id)
	return err == nil && found.Annotations[annotationLeaving] == "true" // After an error the peer stays, and is looked at again.
}

// outlast ends a peer whose Secret has been missing for the grace period, or is missing on purpose, and returns when to look again. Missing Secrets
// mean nothing while the controller's own namespace is being deleted, or is gone: they go before the controller does.
func (p *peer) outlast(onPurpose bool) time.Duration {
	s := p.registry
	s.mu.Lock()
	if p.left || p.missing.IsZero() {
		s.mu.Unlock()
		return idle
	}
	if !s.identity.lasts {
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
	s.options.Log.Info("A peer without a Secret has left", "peer", p.id)
	s.call(names)
	s.callState(p.id)
	return idle
}

// missingLocked decides what becomes of a peer without a Secret.
func (p *peer) missingLocked() string {
	s := p.registry
	if !s.identity.lasts {
		return fmt.Sprintf("the Secret is gone, and the namespace %s is being deleted: everything from this peer stays as it is", s.options.Namespace)
	}
	return fmt.Sprintf("the Secret %s/%s with the label %s is gone. Everything from this peer stays as it is until %s, then it is removed. "+
		"To keep it, make the Secret again. To have a peer leave at once, use deploy/join.sh --leave",
		s.options.Namespace, p.id, mcs.LabelPeer, p.missing.Add(p.grace).UTC().Format(time.RFC3339))
}

// adopt makes peers of the clusters that have no Secret at the start and are remembered, by Leases or by imports: their Secrets went while
// no controller ran. It tries until the Leases are known. Without that, the imports of such a peer would be deleted.
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
			r.options.Log.Error(err, "The Leases of peers, or the imports, cannot be listed, which is tried again and again")
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

// adoptAll runs before the first plan, so no name has to be planned again. What only imports remember can be forged: it has a bound, and ids that no cluster
// can have cost nothing.
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
			r.options.Log.Info("Imports record exports of more clusters that are no peers. What is from those is removed", "limit", maxRemembered)
			break
		}
		r.adoptLocked(id)
		adopted++
		r.options.Log.Info("Imports record exports of a cluster that is no peer: neither a Secret nor a Lease of it is there. Everything from it stays for a "+
			"while. To keep it, make the Secret", "peer", id, "for", restoreGrace.String())
	}
	r.adopted = true
	r.settleLocked()
}

// adoptLocked makes a peer. One that is refused leaves at once: nothing can have come from it.
func (r *Registry) adoptLocked(id string) {
	p := r.joinLocked(id, secret{})
	p.grace, p.adopted = restoreGrace, true
	p.missLocked()
	if p.refused != "" {
		r.leaveLocked(p)
	}
}
