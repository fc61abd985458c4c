package desired

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Peers read this cluster's exports from its ServiceExports and from the slices that the controller
// makes of its own endpoints. The first of these slices by name also describes the Service, so that peers
// need neither a watch of Services nor that right. They ignore everything that is not exported, and most
// Services are not.

// publish writes the terms of this cluster's Service on the first of its slices. A Service without slices
// gets an empty one. It adds a note if the terms are too long.
func (d *Desired) publish(b builder) {
	i := slices.IndexFunc(b.members, func(m merge.Member) bool { return m.Cluster == b.Clusterset.Home && m.Exports() })
	// While the Service is being replaced, its slices stay as they are.
	if i < 0 || slices.Contains(b.Clusterset.Vacant, b.Clusterset.Home) {
		return
	}
	terms := b.members[i].Service.Terms()
	if terms == "" {
		d.Notes = append(d.Notes, fmt.Sprintf("the Service in all other clusters: its %d ports are too many to publish", len(b.members[i].Service.Ports)))
		return
	}
	first := d.Slices.firstOf(b.Clusterset.Home)
	if first == nil {
		first = d.Slices.addEmpty(b, b.members[i])
	}
	first.Annotations[mcs.AnnotationTerms] = terms
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
func (s *Slices) addEmpty(b builder, home merge.Member) *discoveryv1.EndpointSlice {
	source := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	if families := home.Service.Families; len(families) > 0 && families[0] == corev1.IPv6Protocol {
		source.AddressType = discoveryv1.AddressTypeIPv6
	}
	m := &sliceBuilder{home: home.Cluster, name: b.name(), merged: b.merged, wanted: map[string]*discoveryv1.EndpointSlice{}}
	empty := m.add(m.sliceName(home, source, 0), home, source, nil, nil)
	s.Associate(b.name(), empty)
	s.Wanted = append(s.Wanted, empty)
	slices.SortFunc(s.Wanted, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return empty
}
