package desired

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// ImportedSlices returns the EndpointSlices that the import of one name should have in the cluster
// home, from all clusters that export the name, including home (C37). They are sorted by name. most
// is the maximum number of endpoints in a slice; 0 means no limit.
//
//  1. Each slice has one source cluster (C32) and the labels of C33 to C35. A name that is not a
//     DNS label has no slices.
//  2. The slices of home are made from the Service's slices, one for each. Slices that are too long
//     are split.
//  3. A peer's slices were made by the peer's controller in the same way. They are copied one to
//     one, under their own names. Associate gives them other names if the derived Service has
//     another name here.
//  4. A port that lost a conflict is left out (C14). The ports that the peer's controller left out
//     are added back first, because that controller can know of another conflict. An unnamed port
//     that has a name in the derived Service (aliasOfUnnamed) is present twice, under both names:
//     its traffic then continues while the Service's port changes from one name to the other (C12).
//  5. Everything else stays: addresses, hostnames, conditions and zones (C38), and the time of the
//     change that caused them. A node name stays only in its own cluster: elsewhere kube-proxy
//     would read it as the name of one of its own nodes.
func ImportedSlices(home string, name types.NamespacedName, merged merge.Merged, members []merge.Member, most int) []*discoveryv1.EndpointSlice {
	return newSliceBuilder(home, name, merged, most).of(members)
}

func newSliceBuilder(home string, name types.NamespacedName, merged merge.Merged, most int) *sliceBuilder {
	m := &sliceBuilder{home: home, name: name, merged: merged, most: most, wanted: map[string]*discoveryv1.EndpointSlice{}}
	if merged.Type == mcsv1beta1.ClusterSetIP { // A headless import has no derived Service.
		m.alias = aliasOfUnnamed(merged.Ports)
	}
	return m
}

// reuse lets the builder leave out the contents of those slices of other clusters that are as in the last
// plan.
func (m *sliceBuilder) reuse(last digest.Copies) {
	m.last, m.copies, m.contents = last, make(digest.Copies, len(last)), map[*discoveryv1.EndpointSlice]content{}
}

// of returns the slices of the clusters that export the name.
func (m *sliceBuilder) of(members []merge.Member) []*discoveryv1.EndpointSlice {
	if len(validation.IsDNS1123Label(m.name.Name)) > 0 {
		return nil
	}
	for _, member := range members {
		switch {
		case !member.Exports():
		case member.Cluster == m.home:
			m.own(member)
		default:
			m.peers(member)
		}
	}
	return slices.SortedFunc(maps.Values(m.wanted), func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
}

// sliceBuilder is the state of one call of ImportedSlices.
type sliceBuilder struct {
	home   string
	name   types.NamespacedName
	merged merge.Merged
	most   int
	// alias is the name of the unnamed port in the derived Service. It can be empty.
	alias string
	// service is a user's Service that the slices are attached to, or nil.
	service *corev1.Service
	wanted  map[string]*discoveryv1.EndpointSlice
	// last are the copies of the last plan, and copies those of this one. contents is nil if all slices
	// are filled.
	last     digest.Copies
	copies   digest.Copies
	contents map[*discoveryv1.EndpointSlice]content
}

// own adds the slices of the Service itself. Imported slices of a derived Service that is itself
// exported are not included: they have endpoints of other clusters (C32).
func (m *sliceBuilder) own(member merge.Member) {
	for _, source := range member.Slices {
		if _, imported := source.Labels[mcsv1beta1.LabelServiceName]; imported || source.Labels[discoveryv1.LabelServiceName] != m.name.Name {
			continue
		}
		for part, endpoints := range m.parts(source.Endpoints) {
			kept, hidden := m.ports(member, source.Ports)
			slice := m.add(m.sliceName(member, source, part), member, source, endpoints, kept)
			if len(hidden) > 0 {
				text, _ := json.Marshal(hidden) // Strings and numbers always marshal.
				slice.Annotations[mcs.AnnotationHiddenPorts] = string(text)
			}
		}
	}
}

// parts splits the endpoints into parts that fit a slice, by a hash of their addresses: part n, if it is too long, becomes the parts 2n+1
// and 2n+2. So one endpoint more or less changes one part, or splits it, and the same endpoints give the same parts. They are two thirds
// full on average. Zero endpoints give one part, because a slice also contains the ports and shows that the cluster exports the name.
func (m *sliceBuilder) parts(endpoints []discoveryv1.Endpoint) map[int][]discoveryv1.Endpoint {
	if len(endpoints) <= m.most || m.most < 1 {
		return map[int][]discoveryv1.Endpoint{0: endpoints}
	}
	sorted := slices.SortedStableFunc(slices.Values(endpoints), func(a, b discoveryv1.Endpoint) int { return slices.Compare(a.Addresses, b.Addresses) })
	parts, same := map[int][]discoveryv1.Endpoint{}, 0
	hashes := make([]uint64, len(sorted))
	for i, e := range sorted {
		if same++; i == 0 || !slices.Equal(e.Addresses, sorted[i-1].Addresses) {
			same = 0 // those with one address differ by their number
		}
		hashes[i] = addressHash(e, same)
	}
	var split func(n, depth int, of []int)
	split = func(n, depth int, of []int) {
		if len(of) <= m.most || depth == deepest {
			for _, i := range of {
				parts[n] = append(parts[n], sorted[i])
			}
			return
		}
		var halves [2][]int
		for _, i := range of {
			half := hashes[i] >> depth & 1
			halves[half] = append(halves[half], i)
		}
		for i, half := range halves {
			if len(half) > 0 {
				split(2*n+1+i, depth+1, half)
			}
		}
	}
	all := make([]int, len(sorted))
	for i := range all {
		all[i] = i
	}
	split(0, 0, all)
	return parts
}

// deepest bounds the numbers of parts. Addresses that were chosen to have one hash get there.
const deepest = 60

func addressHash(e discoveryv1.Endpoint, number int) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, number, e.Addresses) // it returns no error
	return h.Sum64()
}

// peers adds the slices that a peer's controller made. A name is kept if this cluster's controller
// could have given it. Any other name is replaced, so that no peer can overwrite a slice of another
// cluster, of another Service, or a slice that the controller never makes. If two names of the peer
// become the same, the last slice is used.
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
		kept, _ := m.ports(member, peerPorts(member, source))
		m.add(name, member, source, source.Endpoints, kept)
	}
}

// stem returns the start of a slice's name: <service>.<cluster id>.<address type>-. No Service has
// a dot in its name, so the stem identifies the Service and the cluster. The address type of a
// slice cannot change; because the name contains it, it never has to. A name has at most 132 bytes;
// 253 are allowed.
func (m *sliceBuilder) stem(member merge.Member, source *discoveryv1.EndpointSlice) string {
	return ownership.SliceStem(m.name.Name, member.Cluster, source.AddressType)
}

// sliceName returns the stem with a hash of what distinguishes the slices of one cluster.
func (m *sliceBuilder) sliceName(member merge.Member, source *discoveryv1.EndpointSlice, part int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%d", member.Cluster, source.Name, source.AddressType, part))
	return m.stem(member, source) + hex.EncodeToString(sum[:])[:ownership.HashLength]
}

// add adds a slice. Its content is left out if the last plan has made the same of the same source.
func (m *sliceBuilder) add(name string, member merge.Member, source *discoveryv1.EndpointSlice, endpoints []discoveryv1.Endpoint, ports []discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{AddressType: source.AddressType}
	slice.Namespace, slice.Name = m.name.Namespace, name
	slice.Labels = map[string]string{
		mcsv1beta1.LabelServiceName:   m.name.Name,
		mcsv1beta1.LabelSourceCluster: member.Cluster,
		discoveryv1.LabelManagedBy:    mcs.ControllerName,
	}
	slice.Annotations = map[string]string{}
	for _, key := range []string{corev1.EndpointsLastChangeTriggerTime, mcs.AnnotationFailing} {
		if text, ok := source.Annotations[key]; ok {
			slice.Annotations[key] = text
		}
	}
	m.wanted[name] = slice
	fill := func() { slice.Endpoints, slice.Ports = m.copied(member, endpoints), ports }
	if m.contents == nil || member.Cluster == m.home {
		fill()
		return slice
	}
	shape := m.shape(ports)
	c := content{m.last.Find(source, shape), fill}
	if c.digest == "" {
		fill()
		c = content{digest: digest.Of(slice)}
	}
	m.copies.Add(source, shape, c.digest)
	m.contents[slice] = c
	return slice
}

// shape is what the content of a copy depends on besides its source.
func (m *sliceBuilder) shape(ports []discoveryv1.EndpointPort) string {
	text, _ := (&discoveryv1.EndpointSlice{Ports: ports}).Marshal() // Such values always marshal.
	return m.merged.Distribution + string(text)
}

// copied returns copies of endpoints, so that an edit of a slice does not change an object of a store.
func (m *sliceBuilder) copied(member merge.Member, endpoints []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	all := make([]discoveryv1.Endpoint, 0, len(endpoints))
	for _, e := range endpoints {
		e := discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions, Hostname: e.Hostname, Zone: e.Zone, NodeName: e.NodeName}
		if member.Cluster != m.home {
			e.NodeName = nil
		}
		e.Hints = m.hints(e)
		all = append(all, *e.DeepCopy())
	}
	return all
}

// hints returns the hints that make trafficDistribution work with imported slices: the
// EndpointSlice controller of Kubernetes gives hints only to its own slices. kube-proxy selects
// endpoints by zone if every ready endpoint of the Service has a hint and one of the hints is for
// the node's zone. The rule for nodes is the same. Otherwise kube-proxy ignores the hints, so an
// endpoint without a zone is harmless. The endpoints of a peer have no node in this cluster, so
// hints for nodes are only useful if no peer exports the name.
func (m *sliceBuilder) hints(e discoveryv1.Endpoint) *discoveryv1.EndpointHints {
	switch m.merged.Distribution {
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode:
	default:
		return nil
	}
	var hints discoveryv1.EndpointHints
	// The API server validates the zones of hints, but not the zones of endpoints.
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

// Peers read this cluster's exports from its ServiceExports and from the slices that the controller
// makes of its own endpoints. The first of these slices by name also describes the Service, so that peers
// need neither a watch of Services nor that right. They ignore everything that is not exported, and most
// Services are not.

// publish describes this cluster's Service, also in an import of others: if peers knew the export without
// its Service, they would withdraw the name. It adds a note if the description is too long.
func (d *Desired) publish(b builder) {
	i := slices.IndexFunc(b.members, func(m merge.Member) bool { return m.Cluster == b.Clusterset.Home && m.Exports() })
	// While the Service is being replaced, its slices stay as they are. Nothing is added to an import of
	// another system.
	if i < 0 || b.replacing() || ownership.Other(b.Import, b.Slices) != "" {
		return
	}
	d.Slices.Home = b.homeID()
	if home := b.members[i]; !d.Slices.Publish(b.name(), home) {
		d.Notes = append(d.Notes, fmt.Sprintf("the Service in all other clusters: its %d ports are too many to publish", len(home.Service.Ports)))
	}
}

// replacing reports whether the Service of this cluster is being replaced: it, or its endpoints, were there before.
func (b builder) replacing() bool {
	home := b.Clusterset.Home
	return slices.Contains(b.Clusterset.Vacant, home) && slices.ContainsFunc(b.Slices, func(slice *discoveryv1.EndpointSlice) bool {
		return ownership.SliceIsFrom(home, slice, b.Import)
	})
}

// Publish writes the description of a Service of this cluster to the first of its slices. A Service without
// slices gets an empty one. Publish returns false if the description is too long.
func (s *Slices) Publish(name types.NamespacedName, home merge.Member) bool {
	terms := home.Service.Terms()
	if terms == "" {
		return false
	}
	first := s.firstOf(home.Cluster)
	if first == nil {
		first = s.addEmpty(name, home)
	}
	first.Annotations[mcs.AnnotationTerms] = terms
	return true
}

// firstOf returns the first slice of a cluster by name, or nil. Associate may have renamed slices, so they
// need not be in order.
func (s Slices) firstOf(cluster string) (first *discoveryv1.EndpointSlice) {
	for _, slice := range s.Wanted {
		if slice.Labels[mcsv1beta1.LabelSourceCluster] == cluster && (first == nil || slice.Name < first.Name) {
			first = slice
		}
	}
	return first
}

// addEmpty adds a slice without endpoints for this cluster, like the one that Kubernetes creates for each
// Service with a selector.
func (s *Slices) addEmpty(name types.NamespacedName, home merge.Member) *discoveryv1.EndpointSlice {
	source := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	if families := home.Service.Families; len(families) > 0 && families[0] == corev1.IPv6Protocol {
		source.AddressType = discoveryv1.AddressTypeIPv6
	}
	m := &sliceBuilder{home: home.Cluster, name: name, wanted: map[string]*discoveryv1.EndpointSlice{}}
	empty := m.add(m.sliceName(home, source, 0), home, source, nil, nil)
	s.Associate(name, empty)
	s.Wanted = append(s.Wanted, empty)
	slices.SortFunc(s.Wanted, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return empty
}
