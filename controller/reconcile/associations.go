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

	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// maxLeaks is how many leaks of a namespace are remembered that no import waits for.
const maxLeaks = 1000

// associations remembers the slices that have lost the label of a Service other than by a deletion of ours. kube-proxy keeps the endpoints
// of such a slice, also for a Service of that name that is made later. So each of them is a leak until it is healed, or has the label
// again. The zero value is empty.
type associations struct {
	mu       sync.Mutex
	leaks    map[types.NamespacedName]map[slot]leak // by Service, then by slice
	counts   map[string]int                         // of leaks, by namespace
	deleting map[types.UID]*deletion                // by us, of slices that have the label
	all      bool                                   // all slices are in the cache, not only those of imports
}

// slot is where kube-proxy keeps the endpoints of a slice: it has a memory for each family, in which slices go by their names.
type slot struct {
	slice string
	of    discoveryv1.AddressType
}

func slotOf(slice *discoveryv1.EndpointSlice) slot { return slot{slice.Name, slice.AddressType} }

// leak is certain where a slice was seen without its label. Where a slice is gone, it had lost its label or was deleted with it: garbage
// collection does that to all slices of an import.
type leak struct {
	observed.Leak
	certain bool
}

// deletion is one of ours. The answer to the request and the event of a cache come in any order.
type deletion struct {
	succeeded bool
	gone      *discoveryv1.EndpointSlice // as the event shows it; nil before
}

// gained notes that a slice belongs to a Service, as its label says.
func (a *associations) gained(slice *discoveryv1.EndpointSlice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetLocked(serviceOf(slice), slotOf(slice))
}

// lost notes that a slice has lost its label. gone is true where it is not in the cache any more: by a deletion of ours, perhaps. derived is
// true where the label named the derived Service of an import of ours. Other labels can be anybody's words, and there may be such an import
// later: those leaks are noted if they are certain, and have a limit.
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

// replaced notes that another slice has the place of one that is gone: kube-proxy keeps nothing of the first.
func (a *associations) replaced(slice *discoveryv1.EndpointSlice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.deleting, slice.UID)
}

// leakedLocked notes a slice as it was when it had its label. Of one without endpoints kube-proxy keeps none: that is how a leak is healed.
func (a *associations) leakedLocked(slice *discoveryv1.EndpointSlice, certain bool) {
	if !diff.HasNoEndpoints(slice) {
		a.suspectLocked(serviceOf(slice), slice, certain)
	}
}

// suspect notes that a slice may have belonged to a Service.
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

// orphaned notes that the import of a derived Service is gone. What is certain counts for the next one, as far as there is room.
func (a *associations) orphaned(service types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, l := range a.leaks[service] {
		if !l.certain || a.counts[service.Namespace] > maxLeaks {
			a.forgetLocked(service, at)
		}
	}
}

// weDelete notes that a slice is about to be deleted with the label that it has: then kube-proxy forgets it. What it returns takes the
// outcome.
func (a *associations) weDelete(slice *discoveryv1.EndpointSlice) (done func(error)) {
	if cached := a.all || isImported(slice); !cached || serviceOf(slice).Name == "" {
		return func(error) {} // No event comes of it.
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
			return // The event is still to come.
		}
		delete(a.deleting, slice.UID)
		if err != nil && ours.gone != nil { // It went in another way, before we came.
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

// of are the leaks of a Service, by the names of their slices.
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

// changed notes what became of a slice in a cache; nil where it was not there, or is not any more.
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

// isDerived is true for the name of the derived Service of an import of ours.
func (r *serviceReconciler) isDerived(ctx context.Context, service types.NamespacedName) bool {
	return slices.ContainsFunc(importsOfDerived(ctx, r.cache, service), func(request ctrl.Request) bool {
		imp, err := found(ctx, r.cache, request.NamespacedName, new(mcsv1beta1.ServiceImport))
		return err == nil && imp != nil && ownership.OfImport(imp)
	})
}
