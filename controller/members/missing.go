package members

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/controller/plan"
)

// annotationLeaving, with the value "true" on a peer's Secret, says that the Secret is about to be deleted because the peer leaves.
// deploy/join.sh --leave sets it.
const annotationLeaving = "clusterset-dns.io/leaving"

// grace is how long a peer stays as it is without its Secret. Secrets are deleted and made again by mistake, and by tools that know no
// other way to change one: Helm, Argo CD, External Secrets. Absent is not empty.
const grace = time.Minute

// missLocked notes that a peer's Secret, or its label, is gone. The peer stays as it is.
func (p *peer) missLocked() { p.missing = p.set.options.Now() }

// foundLocked takes a peer's Secret, which may be a new one. The peer keeps its age, by which older peers go first.
func (p *peer) foundLocked(of secret) {
	if !p.missing.IsZero() && !p.secret.created.IsZero() {
		of.created = p.secret.created
	}
	p.secret, p.missing = of, time.Time{}
}

// outlast ends a peer whose Secret has been missing for the grace period, and says when to look again. Missing Secrets mean nothing
// while the controller's own namespace is being deleted, or is gone: they go before the controller does.
func (p *peer) outlast() time.Duration {
	s := p.set
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
	if left := s.grace - s.options.Now().Sub(p.missing); left > 0 {
		s.mu.Unlock()
		return left
	}
	names := s.leaveLocked(p)
	s.mu.Unlock()
	s.options.Log.Info("A peer without a Secret has left", "peer", p.id)
	s.call(names)
	s.callStanding(p.id)
	return idle
}

// missingLocked says what becomes of a peer without a Secret.
func (p *peer) missingLocked() string {
	s := p.set
	if !s.identity.lasts {
		return fmt.Sprintf("the Secret is gone, and the namespace %s is being deleted: everything from this peer stays as it is", s.options.Namespace)
	}
	return fmt.Sprintf("the Secret %s/%s with the label %s is gone. Everything from this peer stays as it is until %s, then it is removed. "+
		"To keep it, make the Secret again. To have a peer leave at once, use deploy/join.sh --leave, which marks the Secret before it deletes it",
		s.options.Namespace, p.id, plan.LabelPeer, p.missing.Add(s.grace).UTC().Format(time.RFC3339))
}

// adopt makes peers of the Leases that have no Secret at the start: their Secrets went while no controller ran. It tries until the Leases
// are known. Without them, the imports of such a peer would be deleted.
func (s *Set) adopt(ctx context.Context) {
	for failed := false; ctx.Err() == nil; failed = true {
		list, err := s.leases.List(ctx, metav1.ListOptions{})
		if err == nil {
			s.adoptAll(list.Items)
			return
		}
		if !failed && ctx.Err() == nil {
			s.options.Log.Error(err, "The Leases of peers cannot be listed, which is tried again and again")
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

func (s *Set) adoptAll(leases []coordinationv1.Lease) {
	for i := range leases {
		if id := leases[i].Name; isOurs(&leases[i]) && s.adoptOne(id) {
			s.callStanding(id)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced.leases = true
	s.settleLocked()
}

// adoptOne is false where there is such a peer. One that is refused leaves at once: nothing can have come from it.
func (s *Set) adoptOne(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peers[id] != nil {
		return false
	}
	p := s.joinLocked(id, secret{})
	p.missLocked()
	if p.refused != "" {
		s.leaveLocked(p)
	}
	return true
}
