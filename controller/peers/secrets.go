package peers

import (
	"bytes"
	"context"
	"iter"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubeconfigKey is where a peer's Secret has its kubeconfig.
const kubeconfigKey = "kubeconfig"

// secret is what makes a peer.
type secret struct {
	uid        types.UID
	created    metav1.Time
	kubeconfig []byte
	leaving    bool // it is about to be deleted on purpose
}

func trimSecret(object any) (secret, bool) {
	s := object.(*corev1.Secret)
	return secret{s.UID, s.CreationTimestamp, s.Data[kubeconfigKey], s.Annotations[annotationLeaving] == "true"}, true
}

// secrets is a table of Secrets.
type secrets map[types.NamespacedName]secret

func (s secrets) put(id types.NamespacedName, value secret, changed []types.NamespacedName) []types.NamespacedName {
	was, known := s[id]
	s[id] = value
	if known && was.uid == value.uid && was.leaving == value.leaving && bytes.Equal(was.kubeconfig, value.kubeconfig) {
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

// secretsChanged begins and ends peers. A peer leaves at once where its
// Secret was marked before it went, or where nothing can have come from the peer.
func (s *Registry) secretsChanged(changed []types.NamespacedName) {
	for _, id := range changed {
		s.mu.Lock()
		of, there := s.secrets[id]
		p := s.peers[id.Name]
		switch {
		case there && p == nil:
			s.joinLocked(id.Name, of)
			s.mu.Unlock()
			s.callState(id.Name)
		case there:
			p.foundLocked(of)
			s.mu.Unlock()
			p.notify()
		case p != nil && (p.secret.leaving || p.refused != ""):
			names := s.leaveLocked(p)
			s.mu.Unlock()
			s.call(names)
			s.callState(id.Name)
		case p != nil:
			p.missLocked()
			s.mu.Unlock()
			p.notify()
		default:
			s.mu.Unlock()
		}
	}
	s.notifyAll()
}

// joinLocked begins a peer. One that leaves and comes back at once begins when all of the old one is gone.
func (s *Registry) joinLocked(id string, of secret) *peer {
	ctx, cancel := context.WithCancel(s.ctx)
	p := &peer{
		registry: s, id: id, secret: of, cancel: cancel, after: s.leaving[id], ended: make(chan struct{}), wake: make(chan struct{}, 1),
		state: Unknown, grace: s.grace,
	}
	p.refused, p.refusal = s.refuse(id)
	if p.refused != "" {
		p.state = Expired // nothing can have come from there
	}
	delete(s.leaving, id)
	s.peers[id] = p
	s.running.Go(func() { p.run(ctx) })
	return p
}

// leaveLocked ends a peer, and returns the names that it exported.
func (s *Registry) leaveLocked(p *peer) []types.NamespacedName {
	delete(s.peers, p.id)
	s.leaving[p.id] = p.ended
	delete(s.awaited, p.id)
	s.settleLocked()
	p.left = true
	p.cancel()
	if p.contents == nil {
		return nil
	}
	return sortedNames(p.contents.allNames())
}

// lookLocked has every peer looked at again: the identity of one is a matter of all.
func (s *Registry) lookLocked() {
	for _, p := range s.peers {
		p.notify()
	}
}
