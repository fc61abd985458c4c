package diff

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// evicted returns the slices of others that belong to a Service of the controller, if the controller owns
// both the Service and its import.
func evicted(of []*discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport, svc *corev1.Service) []*discoveryv1.EndpointSlice {
	all := slices.DeleteFunc(slices.Clone(of), func(slice *discoveryv1.EndpointSlice) bool { return !ownership.Unexpected(slice, imp, svc) })
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
