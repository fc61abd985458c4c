package diff

import (
	"cmp"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// evicted returns the slices of others that belong to the derived Service, if the controller owns
// both the Service and its import.
func evicted(st observed.State) []*discoveryv1.EndpointSlice {
	all := slices.DeleteFunc(slices.Concat(st.UnexpectedSlices, st.Slices), func(slice *discoveryv1.EndpointSlice) bool {
		return !ownership.Unexpected(slice, st.Import, st.Service)
	})
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
