package desired

import (
	"slices"
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset-dns/multicluster/controller/merge"
)

// Of several endpoints of a Service with one address, kube-proxy keeps one, whichever it meets last. If that is a copy
// that is not ready, on standby or because its connections fail, the address gets no traffic although another cluster
// has it ready. So each address is given once, wherever copies can differ.

// once returns the members with each address in one of them only: in the first that has it ready, beginning with home.
// Endpoints that are the only ones with their address stay as they are.
func once(members []merge.Member, home string) []merge.Member {
	best := map[place]offer{}
	double := false
	for i, m := range members {
		if !m.Exports() {
			continue
		}
		for _, slice := range m.Slices {
			placeOf := placesOf(slice)
			for _, e := range slice.Endpoints {
				at, o := placeOf(e), offer{i, rankOf(e, m.Cluster == home)}
				if was, known := best[at]; !known || o.rank > was.rank {
					double = double || known && was.member != i
					best[at] = o
				} else {
					double = double || was.member != i
				}
			}
		}
	}
	if !double {
		return members
	}
	members = slices.Clone(members)
	for i := range members {
		if members[i].Exports() {
			members[i].Slices = withoutPlaces(members[i].Slices, func(at place) bool { return best[at].member != i })
		}
	}
	return members
}

// besides returns members without the addresses that endpoints of this cluster have ready.
func besides(members []merge.Member, local []*discoveryv1.EndpointSlice) []merge.Member {
	ready := map[place]bool{}
	for _, slice := range local {
		placeOf := placesOf(slice)
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready[placeOf(e)] = true
			}
		}
	}
	if len(ready) == 0 {
		return members
	}
	members = slices.Clone(members)
	for i := range members {
		members[i].Slices = withoutPlaces(members[i].Slices, func(at place) bool { return ready[at] })
	}
	return members
}

// place is an address with its ports: two clusters can have one address with different ports, such as that of a
// load balancer. kube-proxy reads the first address of an endpoint only.
type place struct{ address, ports string }

// placesOf returns the function that returns the place of an endpoint of a slice.
func placesOf(slice *discoveryv1.EndpointSlice) func(discoveryv1.Endpoint) place {
	var ports []string
	for _, p := range slice.Ports {
		if p.Port != nil {
			ports = append(ports, strconv.Itoa(int(*p.Port)))
		}
	}
	slices.Sort(ports)
	text := strings.Join(ports, " ")
	return func(e discoveryv1.Endpoint) place {
		return place{strings.Join(e.Addresses[:min(len(e.Addresses), 1)], ""), text}
	}
}

// offer is the member that has an address, and how good its copy is.
type offer struct{ member, rank int }

// rankOf prefers an endpoint that is ready, then one that serves, then one of this cluster.
func rankOf(e discoveryv1.Endpoint, home bool) (rank int) {
	c := e.Conditions
	switch {
	case c.Ready == nil || *c.Ready:
		rank = 4
	case c.Serving != nil && *c.Serving:
		rank = 2
	}
	if home {
		rank++
	}
	return rank
}

// withoutPlaces returns slices without the endpoints at some places. The given slices belong to a store, and do not change.
func withoutPlaces(all []*discoveryv1.EndpointSlice, drop func(place) bool) []*discoveryv1.EndpointSlice {
	all = slices.Clone(all)
	for i, slice := range all {
		placeOf := placesOf(slice)
		dropped := func(e discoveryv1.Endpoint) bool { return drop(placeOf(e)) }
		if slices.ContainsFunc(slice.Endpoints, dropped) {
			copied := *slice
			copied.Endpoints = slices.DeleteFunc(slices.Clone(slice.Endpoints), dropped)
			all[i] = &copied
		}
	}
	return all
}
