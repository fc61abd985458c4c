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

// associations records the slices that lost the label of a Service, except by a deletion of the
// controller. kube-proxy keeps the endpoints of such a slice, also for a Service of that name that
// is created later. So each of these slices is a leak until it is healed or has the label again.
// The zero value is empty.
type associations struct {
	mu       sync.Mutex
	leaks    map[types.NamespacedName]map[slot]leak // by Service, then by slice
	counts   map[string]int                         // number of leaks, by namespace
	deleting map[types.UID]*deletion                // by the controller, of labelled slices
	all      bool                                   // all slices are in the cache
}

// slot is the key under which kube-proxy keeps the endpoints of a slice: for each address family,
// the name of the slice.
type slot struct {
	slice string
	of    discoveryv1.AddressType
}

func slotOf(slice *discoveryv1.EndpointSlice) slot { return slot{slice.Name, slice.AddressType} }

// leak is certain if the slice was seen without its label. If the slice is deleted, it lost its
// label before or was deleted with the label. Garbage collection deletes all slices of an import
// with their labels.
type leak struct {
	observed.Leak
	certain bool
}

// deletion is a deletion by the controller. The answer to the request and the event of a cache
// arrive in any order.
type deletion struct {
	succeeded bool
	gone      *discoveryv1.EndpointSlice // the slice from the event; nil before the event
}

// gained records that a slice belongs to the Service in its label.
func (a *associations) gained(slice *discoveryv1.EndpointSlice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetLocked(serviceOf(slice), slotOf(slice))
}

// lost records that a slice has lost its label. gone is true if the slice is no longer in the
// cache, perhaps because the controller deleted it. derived is true if the label was the derived
// Service of an import that the controller owns. Any user can write other labels, and such an
// import may be created later: those leaks are recorded only if they are certain, and up to a
// limit.
func (a *associations) lost(slice *discoveryv1.EndpointSlice, gone, derived bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ours := a.deleting[slice.UID]
	switch {
	case gone && !derived:
		delete(a.deleting, slice.UID)
	case !gone && !derived && a.counts[slice.Namespace] >= maxLeaks:
	case !gone || ours == nil:
		a.leakedLocked(slice, !gone)
	case ours.succeeded:
		delete(a.deleting, slice.UID)
	default:
		ours.gone = slice
	}
}

// replaced records that a new slice has replaced a deleted one with the same name: kube-proxy keeps
// no endpoints of the deleted one.
func (a *associations) replaced(slice *discoveryv1.EndpointSlice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.deleting, slice.UID)
}

// leakedLocked records a slice in its last state with the label. kube-proxy keeps nothing of a
// slice without endpoints, and a leak is healed in this way.
func (a *associations) leakedLocked(slice *discoveryv1.EndpointSlice, certain bool) {
	if endpoints, _ := digest.Count(slice); endpoints > 0 {
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

// weDelete records that the controller is about to delete a slice with its label, so that
// kube-proxy forgets the slice. The caller passes the result of the deletion to the returned
// function.
func (a *associations) weDelete(slice *discoveryv1.EndpointSlice) (done func(error)) {
	if cached := a.all || isImported(slice); !cached || serviceOf(slice).Name == "" {
		return func(error) {} // the cache has no event for it
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.deleting == nil {
		a.deleting = map[types.UID]*deletion{}
	}
	ours := new(deletion)
	a.deleting[slice.UID] = ours
	return func(err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if ours.succeeded = err == nil; ours.succeeded && ours.gone == nil {
			return // the event has not arrived yet
		}
		delete(a.deleting, slice.UID)
		if err != nil && ours.gone != nil { // another writer deleted it first
			a.leakedLocked(ours.gone, false)
		}
	}
}

// healed forgets a leak.
func (a *associations) healed(namespace string, leak observed.Leak) {
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
// a deleted one.
func (r *serviceReconciler) changed(ctx context.Context, before, after *discoveryv1.EndpointSlice) {
	if after != nil && serviceOf(after).Name != "" {
		r.associations.gained(after)
	}
	if before == nil || serviceOf(before).Name == "" {
		return
	}
	if after != nil && slotOf(after) == slotOf(before) && serviceOf(after) == serviceOf(before) {
		if after.UID != before.UID {
			r.associations.replaced(before)
		}
		return
	}
	gone := after == nil || after.UID != before.UID
	r.associations.lost(before, gone, r.isDerived(ctx, serviceOf(before)))
}

// isDerived reports whether an import that the controller owns has a derived Service of this name.
func (r *serviceReconciler) isDerived(ctx context.Context, service types.NamespacedName) bool {
	return slices.ContainsFunc(importsOfDerived(ctx, r.cache, service), func(request ctrl.Request) bool {
		imp, err := found(ctx, r.cache, request.NamespacedName, new(mcsv1beta1.ServiceImport))
		return err == nil && imp != nil && ownership.OfImport(imp)
	})
}
