package peers

import (
	"bytes"
	"context"
	"iter"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubeconfigKey is where a peer's Secret has its kubeconfig.
const kubeconfigKey = "kubeconfig"

// secret is what makes a peer.
type secret struct {
	uid        types.UID
	kubeconfig []byte
	leaving    bool // it is about to be deleted on purpose
}

func trimSecret(object any) (secret, bool) {
	s := object.(*corev1.Secret)
	return secret{s.UID, s.Data[kubeconfigKey], s.Annotations[annotationLeaving] == "true"}, true
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
func (r *Registry) secretsChanged(changed []types.NamespacedName) {
	for _, id := range changed {
		r.mu.Lock()
		of, there := r.secrets[id]
		p := r.peers[id.Name]
		switch {
		case there && p == nil:
			r.joinLocked(id.Name, of)
			r.mu.Unlock()
			r.callState(id.Name)
		case there:
			p.foundLocked(of)
			r.mu.Unlock()
			p.notify()
		case p != nil && (p.secret.leaving || p.refused != ""):
			names := r.leaveLocked(p)
			r.mu.Unlock()
			r.call(names)
			r.callState(id.Name)
		case p != nil:
			p.missLocked()
			r.mu.Unlock()
			p.notify()
		default:
			r.mu.Unlock()
		}
	}
	r.notifyAll()
}

// joinLocked begins a peer. One that leaves and comes back at once begins when all of the old one is gone.
func (r *Registry) joinLocked(id string, of secret) *peer {
	ctx, cancel := context.WithCancel(r.ctx)
	p := &peer{
		registry: r, id: id, secret: of, cancel: cancel, after: r.leaving[id], ended: make(chan struct{}), wake: make(chan struct{}, 1),
		state: Unknown, grace: r.grace,
	}
	p.refused, p.refusal = r.refuse(id)
	if p.refused != "" {
		p.state = Expired // nothing can have come from there
	}
	delete(r.leaving, id)
	r.peers[id] = p
	r.running.Go(func() { p.run(ctx) })
	return p
}

// leaveLocked ends a peer, and returns the names that it exported.
func (r *Registry) leaveLocked(p *peer) []types.NamespacedName {
	delete(r.peers, p.id)
	r.leaving[p.id] = p.ended
	delete(r.awaited, p.id)
	r.settleLocked()
	p.left = true
	p.cancel()
	if p.contents == nil {
		return nil
	}
	return sortedNames(p.contents.allNames())
}

// notifyAllLocked has every peer looked at again: the identity of one is a matter of all.
func (r *Registry) notifyAllLocked() {
	for _, p := range r.peers {
		p.notify()
	}
}
