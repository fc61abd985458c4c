package observed

import (
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// keepLast decides about the endpoints of clusters whose death is only assumed. They are removed if
// any other cluster has a ready endpoint in each of their address families. Otherwise they stay: if
// the guess is wrong they still serve, and if it is right nothing is lost. It returns the clusters
// whose endpoints stay.
func keepLast(st State, members []merge.Member) (kept []string) {
	assumed := func(m merge.Member) bool { return m.Assumed }
	if len(st.Clusterset.SilentAssumed) == 0 && !slices.ContainsFunc(members, assumed) {
		return nil
	}
	last := needed(st, members)
	for i := range members {
		switch {
		case !members[i].Assumed:
		case !last:
			members[i].Slices = nil
		case members[i].Exports() && len(readyFamilies(st, members[i])) > 0:
			kept = append(kept, members[i].Cluster)
		}
	}
	if !last {
		return nil
	}
	for _, cluster := range st.Clusterset.SilentAssumed {
		if len(st.existing(cluster)) > 0 {
			kept = append(kept, cluster)
		}
	}
	slices.Sort(kept)
	return kept
}

// needed reports whether the clusters that are assumed to be dead have endpoints in an address family
// in which no other cluster has a ready one.
func needed(st State, members []merge.Member) bool {
	doubtful, sure := st.existing(st.Clusterset.SilentAssumed...), st.existing(slices.Concat(st.Clusterset.Silent, st.Clusterset.Vacant)...)
	for _, m := range members {
		switch {
		case m.Assumed && m.Exports():
			maps.Copy(doubtful, readyFamilies(st, m))
		case m.Exports():
			maps.Copy(sure, readyFamilies(st, m))
		}
	}
	maps.DeleteFunc(doubtful, func(family discoveryv1.AddressType, _ bool) bool { return sure[family] })
	return len(sure) == 0 || len(doubtful) > 0
}

// existing returns the address families in which existing slices of clusters have a ready endpoint.
func (st State) existing(clusters ...string) map[discoveryv1.AddressType]bool {
	return digest.ReadyFamilies(slices.DeleteFunc(slices.Clone(st.Slices), func(slice *discoveryv1.EndpointSlice) bool {
		return st.Import == nil || !slices.ContainsFunc(clusters, func(cluster string) bool { return ownership.SliceIsFrom(cluster, slice, st.Import) })
	}))
}

// readyFamilies returns the address families in which slices of a cluster have a ready endpoint that traffic can reach.
func readyFamilies(st State, m merge.Member) map[discoveryv1.AddressType]bool {
	families := map[discoveryv1.AddressType]bool{}
	for _, slice := range m.Slices {
		if preference.Ready(slice) > 0 && leads(st.Clusterset.Home, m, slice) {
			families[slice.AddressType] = true
		}
	}
	return families
}

// leads reports whether a port of the Service leads to the endpoints of a slice. Peers have left out other ports.
func leads(home string, m merge.Member, slice *discoveryv1.EndpointSlice) bool {
	return m.Service.Type == mcsv1beta1.Headless || slices.ContainsFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
		return m.Cluster != home || slices.ContainsFunc(m.Service.Ports, func(of mcsv1beta1.ServicePort) bool {
			return p.Name == nil && of.Name == "" || p.Name != nil && *p.Name == of.Name
		})
	})
}
