package desired

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

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
