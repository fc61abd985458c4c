package peers

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/merge"
)

// Heard is what peers say of one name. The values are read only.
type Heard struct {
	// Counting are the peers that count, those that say anything, by their ids.
	Counting []merge.Member
	// Silent are the peers whose time has run out: what they said last, without endpoints. They are still peers: that their exports
	// are gone nobody has said (C22, C39).
	Silent []merge.Member
	// Unheard and Expired are the ids of the peers of which nobody knows yet what they say: those whose time runs, and those whose
	// time has run out.
	Unheard, Expired []string
}

// Gather gives what the peers say of a name.
func (s *Set) Gather(name types.NamespacedName) Heard {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var h Heard
	for id, p := range s.peers {
		switch {
		case p.refused != "": // nothing can have come from there
		case p.standing == Unknown:
			h.Unheard = append(h.Unheard, id)
		case p.view == nil:
			h.Expired = append(h.Expired, id)
		case p.standing == Active:
			if m, ok := p.view.member(id, name); ok {
				h.Counting = append(h.Counting, m)
			}
		default:
			if m, ok := p.view.member(id, name); ok {
				m.Slices = nil
				h.Silent = append(h.Silent, m)
			}
		}
	}
	slices.Sort(h.Unheard)
	slices.Sort(h.Expired)
	slices.SortFunc(h.Counting, byCluster)
	slices.SortFunc(h.Silent, byCluster)
	return h
}

// Home gives the slices of a Service of the own cluster, without those that were imported. They are read only.
func (s *Set) Home(name types.NamespacedName) []*discoveryv1.EndpointSlice {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.home.byService[name]
}

// Names are those that peers export or have slices for, in one namespace, or in all for "".
func (s *Set) Names(namespace string) []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := map[types.NamespacedName]bool{}
	for _, p := range s.peers {
		if p.view == nil {
			continue
		}
		for name := range p.view.names() {
			if namespace == "" || name.Namespace == namespace {
				all[name] = true
			}
		}
	}
	return sortedNames(all)
}
