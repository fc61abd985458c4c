package desired

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// Preferred is the choice between the clusters of an import. The zero value is that of an import
// without a preference.
type Preferred struct {
	Policy preference.Policy
	Choice preference.Choice
	// Clusters are the chosen clusters, sorted.
	Clusters []string
	// Pending means that the slices of the chosen clusters are not connected yet, so the others stay
	// connected.
	Pending bool
}

// prefer chooses the clusters that get the traffic, and puts the slices of the others on standby.
// Chosen clusters are connected first. Others are disconnected when the chosen clusters are seen to
// be connected, so there is no moment without ready endpoints.
func (b builder) prefer(s *Slices) Preferred {
	policy := b.policy()
	s.Disconnect = b.merged.Type == mcsv1beta1.ClusterSetIP
	if len(policy.Entries) == 0 {
		s.Standby = func(*discoveryv1.EndpointSlice) preference.Standby { return preference.Connected }
		return Preferred{Policy: policy}
	}
	return b.choose(s, policy, b.clustersOf(*s))
}

func (b builder) policy() preference.Policy {
	return preference.Resolve(preference.Read(b.Import.Annotations), b.merged.Preference)
}

// choose applies a policy with entries to slices that are not on standby yet.
func (b builder) choose(s *Slices, policy preference.Policy, c clusters) Preferred {
	p := Preferred{Policy: policy, Choice: policy.Choose(c.all(), b.Preference, b.Now.Time)}
	for id := range p.Choice.Clusters {
		p.Clusters = append(p.Clusters, id)
	}
	slices.Sort(p.Clusters)
	p.Pending = c.connected.most(p.Clusters) < min(p.Policy.MinReady, c.ready.most(p.Clusters))

	reserve := s.Reserve
	connected := func(slice *discoveryv1.EndpointSlice) bool {
		have := c.have[slice.Name]
		return p.Choice.Clusters[sourceOf(slice)] || p.Pending && have != nil && !preference.OnStandby(have)
	}
	double := c.double(s, connected)
	s.Standby = func(slice *discoveryv1.EndpointSlice) preference.Standby {
		switch {
		case connected(slice):
			return preference.Connected
		case reserve && p.Choice.Next[sourceOf(slice)], s.Disconnect && double(slice):
			return preference.Reserve
		default:
			return preference.Off
		}
	}
	for _, want := range s.Wanted {
		switch as := s.Standby(want); {
		case as == preference.Connected:
		case s.Disconnect:
			preference.Disconnect(want, as)
		default:
			want.Labels[mcs.LabelStandby] = string(as)
		}
	}
	return p
}

// sourceOf returns the cluster that a slice of the controller came from.
func sourceOf(slice *discoveryv1.EndpointSlice) string {
	return slice.Labels[mcsv1beta1.LabelSourceCluster]
}

// counts are numbers of ready endpoints, by cluster and address type.
type counts map[string]map[discoveryv1.AddressType]int

func (c counts) add(cluster string, slice *discoveryv1.EndpointSlice, ready int) {
	if c[cluster] == nil {
		c[cluster] = map[discoveryv1.AddressType]int{}
	}
	c[cluster][slice.AddressType] += ready
}

// most returns the ready endpoints of the clusters. An endpoint with addresses of two families is in
// two slices, and counts once.
func (c counts) most(clusters []string) (most int) {
	sum := map[discoveryv1.AddressType]int{}
	for _, id := range clusters {
		for family, n := range c[id] {
			sum[family] += n
			most = max(most, sum[family])
		}
	}
	return most
}

// clusters is what the choice between them depends on.
type clusters struct {
	builder
	ready     counts // of the desired slices, and of slices that are kept
	connected counts // of the existing slices that are not on standby, those that stay ready
	have      map[string]*discoveryv1.EndpointSlice
	local     []*discoveryv1.EndpointSlice // of this cluster, which Kubernetes connects
}

func (b builder) clustersOf(s Slices) clusters {
	c := clusters{b, counts{}, counts{}, map[string]*discoveryv1.EndpointSlice{}, nil}
	stays := map[string]int{}
	for _, want := range s.Wanted {
		stays[want.Name] = c.usable(want)
		c.ready.add(sourceOf(want), want, stays[want.Name])
	}
	for _, slice := range b.Slices {
		if !ownership.SliceIsOurs(slice, b.Import) {
			continue
		}
		c.have[slice.Name] = slice
		_, ready := digest.Count(slice)
		if s.Awaited(slice) != "" {
			c.ready.add(sourceOf(slice), slice, ready)
		} else {
			ready = min(ready, stays[slice.Name])
		}
		if !preference.OnStandby(slice) {
			c.connected.add(sourceOf(slice), slice, ready)
		}
	}
	return c
}

// usable returns the number of ready endpoints that a port of the Service leads to. Kubernetes makes slices without ports of pods that lack
// the named target port.
func (c clusters) usable(slice *discoveryv1.EndpointSlice) int {
	if c.merged.Type == mcsv1beta1.ClusterSetIP && len(slice.Ports) == 0 {
		return 0
	}
	return preference.Ready(slice)
}

// addLocal adds endpoints of this cluster that Kubernetes connects to their Service.
func (c *clusters) addLocal(local []*discoveryv1.EndpointSlice) {
	c.local = local
	svc := c.usersService()
	for _, slice := range local {
		ready := c.usable(slice)
		if svc != nil && svc.Spec.ClusterIP == corev1.ClusterIPNone {
			ready = preference.Ready(slice)
		}
		c.ready.add(c.homeID(), slice, ready)
		c.connected.add(c.homeID(), slice, ready)
	}
}

// all returns the clusters that export the name, and this cluster if it has endpoints.
func (c clusters) all() []preference.Cluster {
	var all []preference.Cluster
	for _, m := range c.members {
		if _, endpoints := c.ready[m.Cluster]; !m.Exports() && (!endpoints || m.Cluster != c.homeID()) {
			continue
		}
		_, connected := c.connected[m.Cluster]
		all = append(all, preference.Cluster{
			ID: m.Cluster, Home: m.Cluster == c.homeID(), Ready: c.ready.most([]string{m.Cluster}), Connected: connected, Properties: m.Properties,
		})
	}
	return all
}

// unusedAnnotations returns notes on annotations of an import whose endpoints come from others.
func (b builder) unusedAnnotations() (notes []string) {
	if b.owned || b.Import == nil {
		return nil
	}
	for _, key := range []string{mcs.AnnotationPreferClusters, mcs.AnnotationProbe} {
		if _, given := b.Import.Annotations[key]; given {
			notes = append(notes, "the annotation "+key+", because the controller does not manage the endpoints of this import")
		}
	}
	return notes
}

// Of several endpoints of a Service port with one address and number, kube-proxy keeps one: whichever it meets last, except that a
// terminating one never takes the place of another. So a copy on standby would by chance take the traffic from the copy of a
// chosen cluster. In reserve it is terminating, and cannot (kubernetes pkg/proxy/endpointslicecache.go).

// place is an address behind a port of a Service.
type place struct {
	address, port string
	protocol      corev1.Protocol
	number        int32
}

// placesOf returns the places of the endpoints of a slice that is so, or of all.
func placesOf(slice *discoveryv1.EndpointSlice, is func(discoveryv1.Endpoint) bool) (all []place) {
	for _, e := range slice.Endpoints {
		if len(e.Addresses) == 0 || !is(e) {
			continue
		}
		for _, p := range slice.Ports {
			at := place{address: e.Addresses[0], protocol: corev1.ProtocolTCP}
			if p.Name != nil {
				at.port = *p.Name
			}
			if p.Protocol != nil {
				at.protocol = *p.Protocol
			}
			if p.Port != nil {
				at.number = *p.Port
			}
			all = append(all, at)
		}
	}
	return all
}

func isReady(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

func anyEndpoint(discoveryv1.Endpoint) bool { return true }

// double reports whether an endpoint of a slice is also a ready one of a slice that is connected.
func (c clusters) double(s *Slices, connected func(*discoveryv1.EndpointSlice) bool) func(*discoveryv1.EndpointSlice) bool {
	var taken map[place]bool
	take := func(slice *discoveryv1.EndpointSlice) {
		for _, at := range placesOf(slice, isReady) {
			taken[at] = true
		}
	}
	return func(slice *discoveryv1.EndpointSlice) bool {
		if taken == nil { // Most imports have no slice on standby.
			taken = map[place]bool{}
			for _, local := range c.local {
				take(local)
			}
			for _, one := range s.Wanted {
				if connected(one) {
					take(one)
				}
			}
			for _, kept := range c.Slices {
				if s.Awaited(kept) != "" && connected(kept) && !preference.OnStandby(kept) {
					take(kept)
				}
			}
		}
		return slices.ContainsFunc(placesOf(slice, anyEndpoint), func(at place) bool { return taken[at] })
	}
}
