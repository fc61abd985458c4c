package reconcile

import (
	"cmp"
	"context"
	"slices"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// maxLeaks is the number of leaks of a namespace that are kept although no import waits for them.
const maxLeaks = 1000

// associations records the slices that lost the label of a Service before they were deleted. kube-proxy
// keeps the endpoints of such a slice, also for a Service of that name that is created later. So each of
// these slices is a leak until it is repaired or has the label again. The zero value is empty.
type associations struct {
	mu     sync.Mutex
	leaks  map[types.NamespacedName]map[slot]leak // by Service, then by slice
	counts map[string]int                         // number of leaks, by namespace
}

// slot is the key under which kube-proxy keeps the endpoints of a slice: for each address family,
// the name of the slice.
type slot struct {
	slice string
	of    discoveryv1.AddressType
}

func slotOf(slice *discoveryv1.EndpointSlice) slot { return slot{slice.Name, slice.AddressType} }

// leak is certain if the slice was seen without its label. If nobody saw its last state, it lost its
// label before or was deleted with the label.
type leak struct {
	observed.Leak
	certain bool
}

// gained records that a slice belongs to the Service in its label.
func (a *associations) gained(slice *discoveryv1.EndpointSlice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetLocked(serviceOf(slice), slotOf(slice))
}

// lost records that a slice has lost its label. certain is true if it was seen without the label. derived
// is true if the label was the derived Service of an import that the controller owns. Any user can write
// other labels, and such an import may be created later: those leaks are recorded only if they are certain,
// and up to a limit. kube-proxy keeps nothing of a slice without endpoints, and a leak is repaired in this way.
func (a *associations) lost(slice *discoveryv1.EndpointSlice, certain, derived bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	endpoints, _ := digest.Count(slice)
	if endpoints > 0 && (derived || certain && a.counts[slice.Namespace] < maxLeaks) {
		a.suspectLocked(serviceOf(slice), slice, certain)
	}
}

// suspect records that a slice may have belonged to a Service.
func (a *associations) suspect(service types.NamespacedName, slice *discoveryv1.EndpointSlice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.suspectLocked(service, slice, false)
}

func (a *associations) suspectLocked(service types.NamespacedName, slice *discoveryv1.EndpointSlice, certain bool) {
	if a.leaks == nil {
		a.leaks, a.counts = map[types.NamespacedName]map[slot]leak{}, map[string]int{}
	}
	if a.leaks[service] == nil {
		a.leaks[service] = map[slot]leak{}
	}
	before, known := a.leaks[service][slotOf(slice)]
	if !known {
		a.counts[service.Namespace]++
	}
	a.leaks[service][slotOf(slice)] = leak{observed.Leak{Slice: slice.Name, Service: service.Name, Type: slice.AddressType}, certain || before.certain}
}

// orphaned records that the import of a derived Service was deleted. Certain leaks are kept for the
// next import of that name, up to the limit.
func (a *associations) orphaned(service types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, l := range a.leaks[service] {
		if !l.certain || a.counts[service.Namespace] > maxLeaks {
			a.forgetLocked(service, at)
		}
	}
}

// repaired forgets a leak.
func (a *associations) repaired(namespace string, leak observed.Leak) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetLocked(types.NamespacedName{Namespace: namespace, Name: leak.Service}, slot{leak.Slice, leak.Type})
}

func (a *associations) forgetLocked(service types.NamespacedName, at slot) {
	if _, known := a.leaks[service][at]; !known {
		return
	}
	delete(a.leaks[service], at)
	if len(a.leaks[service]) == 0 {
		delete(a.leaks, service)
	}
	if a.counts[service.Namespace]--; a.counts[service.Namespace] == 0 {
		delete(a.counts, service.Namespace)
	}
}

// of returns the leaks of a Service, sorted by the names of their slices.
func (a *associations) of(service types.NamespacedName) []observed.Leak {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]observed.Leak, 0, len(a.leaks[service]))
	for _, l := range a.leaks[service] {
		all = append(all, l.Leak)
	}
	slices.SortFunc(all, func(a, b observed.Leak) int {
		return cmp.Or(cmp.Compare(a.Slice, b.Slice), cmp.Compare(a.Type, b.Type))
	})
	return all
}

func serviceOf(slice *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
}

// changed records the change of a slice in a cache. before is nil for a new slice, after is nil for
// a deleted one. seen means that before is the last state of a deleted slice. kube-proxy forgets a slice
// that was deleted with its label.
func (r *serviceReconciler) changed(ctx context.Context, before, after *discoveryv1.EndpointSlice, seen bool) {
	if after != nil && serviceOf(after).Name != "" {
		r.associations.gained(after)
	}
	switch {
	case before == nil || serviceOf(before).Name == "":
	case after == nil && seen:
	case after != nil && slotOf(after) == slotOf(before) && serviceOf(after) == serviceOf(before):
	default:
		r.associations.lost(before, after != nil && after.UID == before.UID, r.isDerived(ctx, serviceOf(before)))
	}
}

// isDerived reports whether an import that the controller owns has a derived Service of this name.
func (r *serviceReconciler) isDerived(ctx context.Context, service types.NamespacedName) bool {
	return slices.ContainsFunc(importsOfDerived(ctx, r.cache, service), func(request ctrl.Request) bool {
		imp, err := found(ctx, r.cache, request.NamespacedName, new(mcsv1beta1.ServiceImport))
		return err == nil && imp != nil && ownership.OfImport(imp)
	})
}
