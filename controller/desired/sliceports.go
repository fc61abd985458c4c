package desired

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// ports splits a slice's ports into the ports that can receive the import's traffic and the hidden
// ports, each sorted by name.
func (m *sliceBuilder) ports(member merge.Member, all []discoveryv1.EndpointPort) (kept, hidden []discoveryv1.EndpointPort) {
	seen := map[string]bool{}
	for _, p := range all {
		p := *p.DeepCopy()
		if p.Name == nil { // The API server sets the same defaults.
			p.Name = new("")
		}
		if p.Protocol == nil {
			p.Protocol = new(corev1.ProtocolTCP)
		}
		if seen[*p.Name] || isAlias(member, *p.Name) {
			continue
		}
		seen[*p.Name] = true
		if m.leads(member, p) {
			kept = append(kept, withAlias(p, m.alias)...)
		} else {
			hidden = append(hidden, p)
		}
	}
	byName := func(a, b discoveryv1.EndpointPort) int { return cmp.Compare(*a.Name, *b.Name) }
	slices.SortFunc(kept, byName)
	slices.SortFunc(hidden, byName)
	return kept, hidden
}

// withAlias returns a port, and the same port under its alias if it has one.
func withAlias(p discoveryv1.EndpointPort, alias string) []discoveryv1.EndpointPort {
	if alias == "" || p.Name != nil && *p.Name != "" {
		return []discoveryv1.EndpointPort{p}
	}
	second := *p.DeepCopy()
	second.Name = new(alias)
	return []discoveryv1.EndpointPort{p, second}
}

// isAlias reports whether the peer's controller added a port under an alias. The alias can be
// different in this cluster.
func isAlias(member merge.Member, name string) bool {
	_, exposed := mcs.PortNamed(member.Service.Ports, name)
	return strings.HasPrefix(name, unnamedPrefix) && !exposed
}

// leads reports whether the import's port of a name is the port that the member's Service exposes
// under that name (C14). A port that the Service does not contain is part of no conflict. A user's
// Service leads to the ports that have the name and the protocol of its own: kube-proxy finds
// endpoints by them, and the number does not matter.
func (m *sliceBuilder) leads(member merge.Member, p discoveryv1.EndpointPort) bool {
	if m.service != nil {
		return hasPort(m.service, *p.Name, *p.Protocol)
	}
	name := *p.Name
	exposed, known := mcs.PortNamed(member.Service.Ports, name)
	if !known {
		return true
	}
	merged, ok := mcs.PortNamed(m.merged.Ports, name)
	return ok && merged.Protocol == exposed.Protocol && merged.Port == exposed.Port
}

// hiddenPorts returns the ports that the peer's controller left out. It ignores ports that are
// invalid in an EndpointSlice.
func hiddenPorts(slice *discoveryv1.EndpointSlice) []discoveryv1.EndpointPort {
	text := slice.Annotations[mcs.AnnotationHiddenPorts]
	var hidden []discoveryv1.EndpointPort
	if text == "" || json.Unmarshal([]byte(text), &hidden) != nil {
		return nil
	}
	return slices.DeleteFunc(hidden, func(p discoveryv1.EndpointPort) bool {
		return p.Name != nil && *p.Name != "" && len(validation.IsDNS1123Label(*p.Name)) > 0 ||
			p.Protocol != nil && !slices.Contains([]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}, *p.Protocol) ||
			p.AppProtocol != nil && len(validation.IsQualifiedName(*p.AppProtocol)) > 0
	})
}
