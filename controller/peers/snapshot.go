package peers

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/merge"
)

// Snapshot is what peers export under one name. The values are read-only.
type Snapshot struct {
	// Active are the peers that export the name, sorted by their IDs.
	Active []merge.Member
	// Expired are the peers whose time has run out: their last exports, without endpoints. They are
	// still peers, and their exports were not withdrawn (C22, C39).
	Expired []merge.Member
	// Unknown and UnknownExpired are the IDs of peers that this process has not read yet: Unknown
	// if the peer's time has not run out, UnknownExpired if it has.
	Unknown, UnknownExpired []string
}

// Snapshot returns what the peers export under a name.
func (r *Registry) Snapshot(name types.NamespacedName) Snapshot {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all Snapshot
	for id, p := range r.peers {
		switch {
		case p.refused != "": // its data is not used
		case p.state == Unknown:
			all.Unknown = append(all.Unknown, id)
		case p.contents == nil:
			all.UnknownExpired = append(all.UnknownExpired, id)
		case p.state == Active:
			if m, ok := p.memberLocked(name); ok {
				all.Active = append(all.Active, m)
			}
		default:
			if m, ok := p.memberLocked(name); ok {
				m.Slices = nil
				all.Expired = append(all.Expired, m)
			}
		}
	}
	slices.Sort(all.Unknown)
	slices.Sort(all.UnknownExpired)
	slices.SortFunc(all.Active, byCluster)
	slices.SortFunc(all.Expired, byCluster)
	return all
}

// Names returns the names that peers export or have slices for, in one namespace, or in all for "".
func (r *Registry) Names(namespace string) []types.NamespacedName {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[types.NamespacedName]bool{}
	for _, p := range r.peers {
		if p.contents == nil {
			continue
		}
		for name := range p.contents.names() {
			if namespace == "" || name.Namespace == namespace {
				all[name] = true
			}
		}
	}
	return sortedNames(all)
}
