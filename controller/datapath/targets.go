package datapath

import (
	"cmp"
	"hash/fnv"
	"iter"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// MaxTargets is the maximum number of endpoints of one cluster to connect to. A cluster with few
// Services has fewTargets, if it has so many endpoints: the end of one pod is not that of its cluster.
const (
	MaxTargets = 64
	fewTargets = 16
)

// Target is an address and TCP port of an endpoint.
type Target = netip.AddrPort

// Targets returns the endpoints of a cluster to connect to: one of each Service in each address
// family, or more if these are few, at most MaxTargets, from as many nodes as possible. Each item of
// services contains the slices of one Service. Endpoints that skip returns true for are left out. The
// result depends on the items only, not on their order.
//
// Ports for UDP and SCTP, and ports with appProtocol, are left out: a connection without data proves
// nothing for the former, and servers of the latter can report it as an error.
func Targets(services iter.Seq[[]*discoveryv1.EndpointSlice], skip func(Target) bool) []Target {
	chosen, first, every := map[Target]bool{}, places{}, places{}
	each := func(do func(of iter.Seq[endpoint])) {
		for all := range services {
			do(endpoints(all, discoveryv1.AddressTypeIPv4, skip))
			do(endpoints(all, discoveryv1.AddressTypeIPv6, skip))
		}
	}
	each(func(of iter.Seq[endpoint]) {
		if e, ok := anyOf(of); ok {
			first.add(e)
		}
	})
	first.choose(chosen, MaxTargets)
	if len(chosen) < fewTargets {
		each(func(of iter.Seq[endpoint]) {
			for e := range of {
				every.add(e)
			}
		})
		every.choose(chosen, fewTargets)
	}
	return slices.SortedFunc(maps.Keys(chosen), Target.Compare)
}

// endpoint is an endpoint to connect to, and its place.
type endpoint struct {
	target Target
	at     place
}

// place is a node in one address family. Endpoints without a node are at the place "".
type place struct {
	node   string
	family discoveryv1.AddressType
}

// places are the endpoints at each place.
type places map[place][]Target

func (p places) add(e endpoint) { p[e.at] = append(p[e.at], e.target) }

// choose adds one endpoint of each place after another, until so many are chosen. Places of which
// one is chosen already are last.
func (p places) choose(chosen map[Target]bool, most int) {
	used := map[place]int{}
	for at, all := range p {
		slices.SortFunc(all, Target.Compare)
		if slices.ContainsFunc(all, func(t Target) bool { return chosen[t] }) {
			used[at] = 1
		}
	}
	order := slices.SortedFunc(maps.Keys(p), func(a, b place) int {
		return cmp.Or(used[a]-used[b], cmp.Compare(a.node, b.node), cmp.Compare(a.family, b.family))
	})
	for round, more := 0, true; more; round++ {
		more = false
		for _, at := range order {
			if len(chosen) >= most {
				return
			}
			if round < len(p[at]) {
				chosen[p[at][round]], more = true, true
			}
		}
	}
}

// anyOf returns an endpoint of a Service: that with the lowest hash. With the lowest address, the
// endpoints of most Services would be on one node, that with the first network.
func anyOf(all iter.Seq[endpoint]) (chosen endpoint, ok bool) {
	var lowest uint64
	for e := range all {
		sum := fnv.New64a()
		address := e.target.Addr().As16()
		_, _ = sum.Write(address[:])
		hash := sum.Sum64()
		if !ok || hash < lowest || hash == lowest && e.target.Compare(chosen.target) < 0 {
			chosen, lowest, ok = e, hash, true
		}
	}
	return chosen, ok
}

// endpoints returns the ready endpoints of a Service in one address family.
func endpoints(all []*discoveryv1.EndpointSlice, family discoveryv1.AddressType, skip func(Target) bool) iter.Seq[endpoint] {
	return func(yield func(endpoint) bool) {
		for _, slice := range all {
			port := firstPort(slice, false)
			if slice.AddressType != family || port == 0 {
				continue
			}
			for i := range slice.Endpoints {
				address, ok := addressOf(&slice.Endpoints[i])
				e := endpoint{netip.AddrPortFrom(address, port), place{family: family}}
				if node := slice.Endpoints[i].NodeName; node != nil {
					e.at.node = *node
				}
				if ok && !skip(e.target) && !yield(e) {
					return
				}
			}
		}
	}
}

// Checked returns the ready endpoints of a slice that can be checked because a user asks for it: at
// the first TCP port of the slice, also if that has an appProtocol. The keys are positions in
// slice.Endpoints.
func Checked(slice *discoveryv1.EndpointSlice) map[int]Target {
	port := firstPort(slice, true)
	if port == 0 || slice.AddressType == discoveryv1.AddressTypeFQDN {
		return nil
	}
	all := map[int]Target{}
	for i := range slice.Endpoints {
		if address, ok := addressOf(&slice.Endpoints[i]); ok {
			all[i] = netip.AddrPortFrom(address, port)
		}
	}
	return all
}

// firstPort returns the first TCP port of a slice, or 0. appProtocol is whether a port with an
// appProtocol can be it.
func firstPort(slice *discoveryv1.EndpointSlice, appProtocol bool) uint16 {
	for _, p := range slice.Ports {
		tcp := p.Protocol == nil || *p.Protocol == corev1.ProtocolTCP
		if tcp && (appProtocol || p.AppProtocol == nil) && p.Port != nil && *p.Port > 0 && *p.Port < 1<<16 {
			return uint16(*p.Port)
		}
	}
	return 0
}

// addressOf returns the address of a ready endpoint. Only unicast addresses beyond the link are
// used: a peer must not choose an address of the controller's own host, or of a cloud's metadata.
func addressOf(e *discoveryv1.Endpoint) (netip.Addr, bool) {
	if len(e.Addresses) == 0 || e.Conditions.Ready != nil && !*e.Conditions.Ready {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(e.Addresses[0])
	return address, err == nil && address.IsGlobalUnicast() && !address.Is4In6() && address.Zone() == ""
}
