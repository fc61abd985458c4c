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
	// Expired are the peers whose time has run out, with their last exports. They are still peers, and
	// their exports were not withdrawn (C22, C39). Those that are proven to be dead have no endpoints.
	// The others are marked as Assumed.
	Expired []merge.Member
	// Unknown and UnknownExpired are the IDs of peers that this process has not read yet: Unknown
	// if the peer's time has not run out, UnknownExpired if it has. UnknownAssumed are those of
	// UnknownExpired that are not proven to be dead.
	Unknown, UnknownExpired, UnknownAssumed []string
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
			if p.state == Expired {
				all.UnknownAssumed = append(all.UnknownAssumed, id)
			}
		case p.state == Active:
			if m, ok := p.memberLocked(name); ok {
				all.Active = append(all.Active, m)
			}
		default:
			if m, ok := p.memberLocked(name); ok {
				if m.Assumed = p.state == Expired; !m.Assumed {
					m.Slices = nil
				}
				all.Expired = append(all.Expired, m)
			}
		}
	}
	slices.Sort(all.Unknown)
	slices.Sort(all.UnknownExpired)
	slices.Sort(all.UnknownAssumed)
	slices.SortFunc(all.Active, byCluster)
	slices.SortFunc(all.Expired, byCluster)
	return all
}

// Reads reports whether a peer is read, and can export a name. If it does not, it has withdrawn the name.
func (r *Registry) Reads(id string, name types.NamespacedName) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p := r.peers[id]
	return p != nil && p.refused == "" && p.state == Active && p.contents != nil && p.canExportLocked(name)
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
