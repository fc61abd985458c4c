package diff

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// renamesUnnamed is true for an edit of a Service that gives its unnamed port a name.
func renamesUnnamed(edit *Edit[*corev1.Service]) bool {
	unnamed := func(svc *corev1.Service) bool {
		return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "" })
	}
	return unnamed(edit.Old) && !unnamed(edit.New)
}

// evicted are those of others that lead to our Service of an import of ours.
func evicted(st observed.State) []*discoveryv1.EndpointSlice {
	all := slices.DeleteFunc(slices.Concat(st.UnexpectedSlices, st.Slices), func(slice *discoveryv1.EndpointSlice) bool { return !ownership.Stray(slice, st.Import, st.Service) })
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
