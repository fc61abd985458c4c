package desired

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// otherServices returns the controller's Services that do not have the derived name, sorted.
func otherServices(st observed.State) []*corev1.Service {
	name := ownership.DerivedName(st.Import)
	return sorted(slices.DeleteFunc(slices.Clone(st.Owned), func(svc *corev1.Service) bool { return svc.Name == name }))
}

// notDeleted leaves out Services that are already being deleted.
func notDeleted(services []*corev1.Service) []*corev1.Service {
	return sorted(slices.DeleteFunc(slices.Clone(services), func(svc *corev1.Service) bool { return svc.DeletionTimestamp != nil }))
}

func sorted(services []*corev1.Service) []*corev1.Service {
	slices.SortFunc(services, func(a, b *corev1.Service) int { return cmp.Compare(a.Name, b.Name) })
	return services
}
