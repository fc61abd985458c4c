package desired

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset-dns/multicluster/controller/preference"
)

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
