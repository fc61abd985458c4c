package observed

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// keepLast decides about the endpoints of clusters whose death is only assumed. They are removed if
// any other cluster has a ready endpoint. Otherwise they stay: if the guess is wrong they still serve,
// and if it is right nothing is lost. It returns the clusters whose endpoints stay.
func keepLast(st State, members []merge.Member) (kept []string) {
	assumed := func(m merge.Member) bool { return m.Assumed }
	if len(st.Clusterset.SilentAssumed) == 0 && !slices.ContainsFunc(members, assumed) {
		return nil
	}
	last := !slices.ContainsFunc(members, func(m merge.Member) bool { return !m.Assumed && m.Exports() && ready(m.Slices) }) && !waitingReady(st)
	for i := range members {
		switch {
		case !members[i].Assumed:
		case !last:
			members[i].Slices = nil
		case members[i].Exports() && ready(members[i].Slices):
			kept = append(kept, members[i].Cluster)
		}
	}
	if !last {
		return nil
	}
	for _, cluster := range st.Clusterset.SilentAssumed {
		if st.existing(cluster) {
			kept = append(kept, cluster)
		}
	}
	slices.Sort(kept)
	return kept
}

// waitingReady reports whether existing slices have a ready endpoint of a cluster that is not read
// yet, or of one whose Service is being replaced.
func waitingReady(st State) bool {
	return slices.ContainsFunc(slices.Concat(st.Clusterset.Silent, st.Clusterset.Vacant), st.existing)
}

// existing reports whether existing slices of a cluster have a ready endpoint.
func (st State) existing(cluster string) bool {
	return st.Import != nil && slices.ContainsFunc(st.Slices, func(slice *discoveryv1.EndpointSlice) bool {
		_, ready := digest.Count(slice)
		return ownership.SliceIsFrom(cluster, slice, st.Import) && ready > 0
	})
}

func ready(all []*discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(all, func(slice *discoveryv1.EndpointSlice) bool { return preference.Ready(slice) > 0 })
}
