package peers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/datapath"
)

// Check sets the endpoints of a name to connect to all the time, by peer. The value of an endpoint is
// whether it fails, as far as this process does not know better. nil ends the checks of the name.
func (r *Registry) Check(name types.NamespacedName, targets map[string]map[datapath.Target]bool) {
	if r.options.Connect == nil {
		return
	}
	r.mu.RLock()
	checked := r.checked[name]
	r.mu.RUnlock()
	if !checked && len(targets) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, p := range r.peers {
		p.checks.Follow(name, targets[id])
	}
	if len(targets) == 0 {
		delete(r.checked, name)
	} else {
		r.checked[name] = true
	}
}

// Checked returns the endpoints of a name that are connected to all the time, by peer, and whether
// each of them fails.
func (r *Registry) Checked(name types.NamespacedName) map[string]map[datapath.Target]bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.checked[name] {
		return nil
	}
	all := map[string]map[datapath.Target]bool{}
	for id, p := range r.peers {
		if failing := p.checks.Failing(name); len(failing) > 0 {
			all[id] = failing
		}
	}
	return all
}

// nextCheck returns a connection to an endpoint that is checked, or nil. The peers take turns.
func (r *Registry) nextCheck(last string, now time.Time) *connecting {
	for _, p := range r.turnLocked(last, func(*peer) bool { return true }) {
		if of, due := p.checks.Due(now); due {
			return &connecting{p, of.At, func(accepted bool) { p.checkedNow(of, accepted) }, func() { p.checks.Forget(of) }}
		}
	}
	return nil
}

// checkedNow notes the result of a connection.
func (p *peer) checkedNow(of datapath.Endpoint, accepted bool) {
	p.registry.mu.Lock()
	changed := p.checks.Answer(of, accepted)
	p.registry.mu.Unlock()
	if changed {
		p.registry.call([]types.NamespacedName{of.Name})
	}
}
