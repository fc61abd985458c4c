package members

import (
	"bytes"
	"context"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/plan"
)

// kubeconfigKey is where a peer's Secret has its kubeconfig.
const kubeconfigKey = "kubeconfig"

// secret is what makes a peer.
type secret struct {
	uid        types.UID
	created    metav1.Time
	kubeconfig []byte
}

func trimSecret(object any) (secret, bool) {
	s := object.(*corev1.Secret)
	return secret{s.UID, s.CreationTimestamp, s.Data[kubeconfigKey]}, true
}

// secrets is a table of Secrets.
type secrets map[types.NamespacedName]secret

func (s secrets) put(id types.NamespacedName, value secret, changed []types.NamespacedName) []types.NamespacedName {
	was, known := s[id]
	s[id] = value
	if known && was.uid == value.uid && bytes.Equal(was.kubeconfig, value.kubeconfig) {
		return changed
	}
	return append(changed, id)
}

func (s secrets) drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	if _, known := s[id]; !known {
		return changed
	}
	delete(s, id)
	return append(changed, id)
}

func (s secrets) ids() iter.Seq[types.NamespacedName] { return maps.Keys(s) }

// secretsChanged begins and ends peers. The first time, there is nothing that is not among the changed.
func (s *Set) secretsChanged(changed []types.NamespacedName) {
	for _, id := range changed {
		s.mu.Lock()
		of, there := s.secrets[id]
		p := s.peers[id.Name]
		switch {
		case there && p == nil:
			s.joinLocked(id.Name, of)
			s.mu.Unlock()
			s.callStanding(id.Name)
		case there:
			p.secret = of
			s.mu.Unlock()
			p.look()
		case p != nil:
			names := s.leaveLocked(p)
			s.mu.Unlock()
			s.call(names)
			s.callStanding(id.Name)
		default:
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaited == nil {
		s.awaited = map[string]bool{}
		for id := range s.peers {
			s.awaited[id] = true
		}
		s.settleLocked()
		close(s.listed)
	}
	s.lookLocked()
}

// joinLocked begins a peer. One that leaves and comes back at once begins when all of the old one is gone.
func (s *Set) joinLocked(id string, of secret) {
	ctx, cancel := context.WithCancel(s.ctx)
	p := &peer{
		set: s, id: id, secret: of, cancel: cancel, after: s.leaving[id], ended: make(chan struct{}), wake: make(chan struct{}, 1),
		standing: plan.Held,
	}
	p.refused, p.refusal = s.refuse(id)
	if p.refused != "" {
		p.standing = plan.Gone // nothing can have come from there
	}
	delete(s.leaving, id)
	s.peers[id] = p
	s.running.Go(func() { p.run(ctx) })
}

// leaveLocked ends a peer, and gives the names that it said something of.
func (s *Set) leaveLocked(p *peer) []types.NamespacedName {
	delete(s.peers, p.id)
	s.leaving[p.id] = p.ended
	delete(s.awaited, p.id)
	s.settleLocked()
	p.left = true
	p.cancel()
	if p.view == nil {
		return nil
	}
	return sortedNames(p.view.allNames())
}

// lookLocked has every peer looked at again: the identity of one is a matter of all.
func (s *Set) lookLocked() {
	for _, p := range s.peers {
		p.look()
	}
}

// peersOf are the ids of all peers, in order.
func (s *Set) peersOf() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.peers))
}
