package desired

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// ImportedSlices are the EndpointSlices that the import of one name should have in the cluster home, from all clusters that export it, the
// own one included (C37); sorted by name. most is how many endpoints a slice may have, 0 for any number.
//
//  1. Each slice has one source cluster (C32) and the labels of C33 to C35. A name that is no DNS label has none.
//  2. The own cluster's are made of the Service's slices, one to one; those that are too long are split.
//  3. A peer's were made by the peer's controller in the same way. They are copied one to one, under their own names; Associate gives them
//     others where the derived Service has another name here.
//  4. A port that lost a conflict is left out (C14). The ports that the peer's controller left out are put back first: it may
//     have heard of another conflict. An unnamed port that has a name in the derived Service (aliasOfUnnamed) is there twice, under
//     both names: so its traffic flows on while the Service's port changes from one to the other (C12).
//  5. The rest stays: addresses, hostnames, conditions and zones (C38), and the time of the change that caused them. A node's
//     name stays at home: elsewhere kube-proxy would take it for one of its own.
func ImportedSlices(home string, name types.NamespacedName, merged merge.Merged, members []merge.Member, most int) []*discoveryv1.EndpointSlice {
	if len(validation.IsDNS1123Label(name.Name)) > 0 {
		return nil
	}
	m := sliceBuilder{home: home, name: name, merged: merged, most: most, wanted: map[string]*discoveryv1.EndpointSlice{}}
	if merged.Type == mcsv1beta1.ClusterSetIP { // A headless import has no derived Service.
		m.alias = aliasOfUnnamed(merged.Ports)
	}
	for _, member := range members {
		switch {
		case !member.Exports():
		case member.Cluster == home:
			m.own(member)
		default:
			m.peers(member)
		}
	}
	return slices.SortedFunc(maps.Values(m.wanted), func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
}

// sliceBuilder is one call of ImportedSlices.
type sliceBuilder struct {
	home   string
	name   types.NamespacedName
	merged merge.Merged
	most   int
	alias  string // of the unnamed port in the derived Service; may be empty
	wanted map[string]*discoveryv1.EndpointSlice
}

// own adds the slices of the Service itself. Imported slices of a Service that is itself exported (a
// derived one) are not its own: their endpoints are other clusters' (C32).
func (m *sliceBuilder) own(member merge.Member) {
	for _, source := range member.Slices {
		if _, imported := source.Labels[mcsv1beta1.LabelServiceName]; imported || source.Labels[discoveryv1.LabelServiceName] != m.name.Name {
			continue
		}
		for part, endpoints := range m.parts(source.Endpoints) {
			kept, hidden := m.ports(member, source.Ports)
			slice := m.add(m.sliceName(member, source, part), member, source, endpoints, kept)
			if len(hidden) > 0 {
				text, _ := json.Marshal(hidden) // Strings and numbers: no error.
				slice.Annotations[mcs.AnnotationHiddenPorts] = string(text)
			}
		}
	}
}

// parts are the endpoints in lots that fit a slice. They are put in order first: the same endpoints give the same parts. No
// endpoints are one part, too: a slice also names the ports, and shows that the cluster exports the name.
func (m *sliceBuilder) parts(endpoints []discoveryv1.Endpoint) [][]discoveryv1.Endpoint {
	if len(endpoints) <= m.most || m.most < 1 {
		return [][]discoveryv1.Endpoint{endpoints}
	}
	sorted := slices.SortedFunc(slices.Values(endpoints), func(a, b discoveryv1.Endpoint) int { return slices.Compare(a.Addresses, b.Addresses) })
	return slices.Collect(slices.Chunk(sorted, m.most))
}

// peers adds what a peer's controller made. A name is kept if it is one that this cluster's controller gives; any other is
// replaced: so no peer can name a slice that is another cluster's, another Service's, or a slice that the controller never makes. Where two of its names
// become one, the last is used.
func (m *sliceBuilder) peers(member merge.Member) {
	sorted := slices.SortedFunc(slices.Values(member.Slices), func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	for _, source := range sorted {
		if source.Labels[mcsv1beta1.LabelServiceName] != m.name.Name {
			continue
		}
		name := source.Name
		if hash, ok := strings.CutPrefix(name, m.stem(member, source)); !ok || !ownership.IsHash(hash) {
			name = m.sliceName(member, source, 0)
		}
		kept, _ := m.ports(member, append(slices.Clone(source.Ports), hiddenPorts(source)...))
		m.add(name, member, source, source.Endpoints, kept)
	}
}

// stem is the start of a slice's name: <service>.<cluster id>.<address type>-. No Service has a dot in its name, so the name says
// which Service and which cluster it belongs to, and no other has one like it. The address type of a slice cannot change; in the
// name, it never has to. It is 132 bytes long at most; 253 fit.
func (m *sliceBuilder) stem(member merge.Member, source *discoveryv1.EndpointSlice) string {
	return ownership.SliceStem(m.name.Name, member.Cluster, source.AddressType)
}

// sliceName is the stem with a hash of what tells the slices of one cluster apart.
func (m *sliceBuilder) sliceName(member merge.Member, source *discoveryv1.EndpointSlice, part int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%d", member.Cluster, source.Name, source.AddressType, part))
	return m.stem(member, source) + hex.EncodeToString(sum[:])[:ownership.HashLength]
}

// add makes a slice of copies: what belongs to a store must not change with it.
func (m *sliceBuilder) add(name string, member merge.Member, source *discoveryv1.EndpointSlice, endpoints []discoveryv1.Endpoint, ports []discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{AddressType: source.AddressType, Ports: ports}
	slice.Namespace, slice.Name = m.name.Namespace, name
	slice.Labels = map[string]string{
		mcsv1beta1.LabelServiceName:   m.name.Name,
		mcsv1beta1.LabelSourceCluster: member.Cluster,
		discoveryv1.LabelManagedBy:    mcs.ControllerName,
	}
	slice.Annotations = map[string]string{}
	if trigger, ok := source.Annotations[corev1.EndpointsLastChangeTriggerTime]; ok {
		slice.Annotations[corev1.EndpointsLastChangeTriggerTime] = trigger
	}
	slice.Endpoints = make([]discoveryv1.Endpoint, 0, len(endpoints))
	for _, e := range endpoints {
		e := discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions, Hostname: e.Hostname, Zone: e.Zone, NodeName: e.NodeName}
		if member.Cluster != m.home {
			e.NodeName = nil
		}
		e.Hints = m.hints(e)
		slice.Endpoints = append(slice.Endpoints, *e.DeepCopy())
	}
	m.wanted[name] = slice
	return slice
}

// hints make trafficDistribution work on our slices: the cluster's own controller gives them to its own slices only. kube-proxy
// goes by zones where every ready endpoint of the Service has a hint and one is for the node's zone, and by nodes likewise; else
// it ignores them. So an endpoint without a zone is harmless. The endpoints of a peer have no node here, so hints for nodes are
// of use only where no peer exports the name.
func (m *sliceBuilder) hints(e discoveryv1.Endpoint) *discoveryv1.EndpointHints {
	switch m.merged.Distribution {
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode:
	default:
		return nil
	}
	var hints discoveryv1.EndpointHints
	// The API server checks the zones of hints, but not those of endpoints.
	if e.Zone != nil && *e.Zone != "" && len(validation.IsValidLabelValue(*e.Zone)) == 0 {
		hints.ForZones = []discoveryv1.ForZone{{Name: *e.Zone}}
	}
	alone := slices.Equal(m.merged.Clusters, []string{m.home})
	if m.merged.Distribution == corev1.ServiceTrafficDistributionPreferSameNode && alone && e.NodeName != nil {
		hints.ForNodes = []discoveryv1.ForNode{{Name: *e.NodeName}}
	}
	if hints.ForZones == nil && hints.ForNodes == nil {
		return nil
	}
	return &hints
}

// ports parts a slice's ports into those that the import's traffic may go to, and the hidden ones, each sorted by name.
func (m *sliceBuilder) ports(member merge.Member, all []discoveryv1.EndpointPort) (kept, hidden []discoveryv1.EndpointPort) {
	seen := map[string]bool{}
	for _, p := range all {
		p := *p.DeepCopy()
		if p.Name == nil { // Both as the API server's defaults.
			p.Name = new("")
		}
		if p.Protocol == nil {
			p.Protocol = new(corev1.ProtocolTCP)
		}
		if seen[*p.Name] || isAlias(member, *p.Name) {
			continue
		}
		seen[*p.Name] = true
		if m.leads(member, *p.Name) {
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

// withAlias is a port, and the same one under its second name if it has one.
func withAlias(p discoveryv1.EndpointPort, alias string) []discoveryv1.EndpointPort {
	if alias == "" || p.Name != nil && *p.Name != "" {
		return []discoveryv1.EndpointPort{p}
	}
	second := *p.DeepCopy()
	second.Name = new(alias)
	return []discoveryv1.EndpointPort{p, second}
}

// isAlias is true for a port that the peer's controller has added under a second name: here that name may be another one.
func isAlias(member merge.Member, name string) bool {
	_, exposed := mcs.PortNamed(member.Service.Ports, name)
	return strings.HasPrefix(name, unnamedPrefix) && !exposed
}

// leads is true where the import's port of a name is the one that the member's Service exposes under it (C14). A port that the
// Service does not know belongs to no conflict.
func (m *sliceBuilder) leads(member merge.Member, name string) bool {
	exposed, known := mcs.PortNamed(member.Service.Ports, name)
	if !known {
		return true
	}
	merged, ok := mcs.PortNamed(m.merged.Ports, name)
	return ok && merged.Protocol == exposed.Protocol && merged.Port == exposed.Port
}

// hiddenPorts are those that the peer's controller left out. What no slice can have is none of them.
func hiddenPorts(slice *discoveryv1.EndpointSlice) []discoveryv1.EndpointPort {
	var hidden []discoveryv1.EndpointPort
	if json.Unmarshal([]byte(slice.Annotations[mcs.AnnotationHiddenPorts]), &hidden) != nil {
		return nil
	}
	return slices.DeleteFunc(hidden, func(p discoveryv1.EndpointPort) bool {
		return p.Name != nil && *p.Name != "" && len(validation.IsDNS1123Label(*p.Name)) > 0 ||
			p.Protocol != nil && !slices.Contains([]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}, *p.Protocol) ||
			p.AppProtocol != nil && len(validation.IsQualifiedName(*p.AppProtocol)) > 0
	})
}
