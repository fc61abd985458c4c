package peers

import (
	"bytes"
	"context"
	"iter"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The keys of a peer's Secret. Of a token and one in the kubeconfig, that counts which was issued later: a renewed token is written to its own
// key, and what a person or a GitOps tool has written stays as it is. Without a kubeconfig, the address is that of a ClusterProfile.
const (
	kubeconfigKey = "kubeconfig"
	tokenKey      = "token"
)

// secret is the part of a peer's Secret that the registry uses.
type secret struct {
	uid        types.UID
	version    string // for a write
	kubeconfig []byte
	renew      bool // the token is to be renewed
	token      string
	leaving    bool // the Secret is about to be deleted on purpose
	limits     limitTexts
}

func trimSecret(object any) (secret, bool) {
	s := object.(*corev1.Secret)
	return secret{
		uid: s.UID, version: s.ResourceVersion, kubeconfig: s.Data[kubeconfigKey], token: string(bytes.TrimSpace(s.Data[tokenKey])),
		renew: s.Annotations[annotationRenew] == "true", leaving: s.Annotations[annotationLeaving] == "true", limits: readLimits(s.Annotations),
	}, true
}

// secrets is a table of Secrets.
type secrets map[types.NamespacedName]secret

func (s secrets) put(id types.NamespacedName, value secret, changed []types.NamespacedName) []types.NamespacedName {
	was, known := s[id]
	s[id] = value
	if known && was.uid == value.uid && was.renew == value.renew && was.leaving == value.leaving &&
		bytes.Equal(was.kubeconfig, value.kubeconfig) && was.token == value.token && was.limits.equal(value.limits) {
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

// secretsChanged starts and stops peers. A peer leaves at once if its Secret was marked before the
// deletion, or if the peer is refused, because then its data is not used.
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
			limited := !p.secret.limits.equal(of.limits)
			p.foundLocked(of)
			var names []types.NamespacedName
			if limited && p.contents != nil {
				p.recountLocked()
				names = sortedNames(p.contents.allNames())
				p.retarget = true
			}
			r.mu.Unlock()
			r.call(names)
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

// joinLocked starts a peer. If a peer with this ID has just left, the new peer waits until the old
// one has ended.
func (r *Registry) joinLocked(id string, of secret) *peer {
	ctx, cancel := context.WithCancel(r.ctx)
	p := &peer{
		registry: r, id: id, secret: of, cancel: cancel, after: r.leaving[id], ended: make(chan struct{}), wake: make(chan struct{}, 1),
		state: Unknown, grace: r.grace,
	}
	p.setLimitsLocked()
	p.refused, p.refusal = r.refuse(id)
	if p.refused != "" {
		p.state = Dead // its data is not used
	}
	delete(r.leaving, id)
	r.peers[id] = p
	r.prober.mu.Lock()
	p.way.Cluster, p.way.Interval = id, r.options.ProbeInterval
	r.prober.schedule.Add(&p.way)
	r.prober.mu.Unlock()
	r.running.Go(func() { p.run(ctx) })
	return p
}

// leaveLocked stops a peer, and returns the names that it exported.
func (r *Registry) leaveLocked(p *peer) []types.NamespacedName {
	delete(r.peers, p.id)
	r.leaving[p.id] = p.ended
	delete(r.awaited, p.id)
	r.settleLocked()
	r.prober.mu.Lock()
	r.prober.schedule.Remove(&p.way)
	r.prober.mu.Unlock()
	p.left = true
	p.cancel()
	if p.contents == nil {
		return nil
	}
	return sortedNames(p.contents.allNames())
}

func (r *Registry) notifyAll() {
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.notifyAllLocked()
}

// notifyAllLocked evaluates every peer again: the identity of one peer affects all.
func (r *Registry) notifyAllLocked() {
	for _, p := range r.peers {
		p.notify()
	}
}

func (p *peer) secretUID() types.UID {
	p.registry.mu.RLock()
	defer p.registry.mu.RUnlock()
	return p.secret.uid
}
