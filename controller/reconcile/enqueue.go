package reconcile

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// The indices of the caches.
const (
	indexOwner   = "import-that-owns"     // Services that the controller owns, by import
	indexImport  = "import-that-is-meant" // EndpointSlices, by import
	indexDerived = "name-of-derived"      // ServiceImports, by derived Service
	indexService = "service"              // EndpointSlices, by Service
	indexNative  = "import-with-own-name" // EndpointSlices attached to a Service with an import's own name, by import
	indexIPs     = "addresses"            // ServiceImports by ips, Services by ClusterIPs
)

func addIndices(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		object client.Object
		name   string
		keys   client.IndexerFunc
	}{
		{&corev1.Service{}, indexOwner, func(obj client.Object) []string { return ownership.OwnerImports(obj) }},
		{&discoveryv1.EndpointSlice{}, indexImport, byLabel(mcsv1beta1.LabelServiceName)},
		{&discoveryv1.EndpointSlice{}, indexService, byLabel(discoveryv1.LabelServiceName)},
		{&discoveryv1.EndpointSlice{}, indexNative, byLabel(mcs.LabelNativeOf)},
		{&mcsv1beta1.ServiceImport{}, indexDerived, func(obj client.Object) []string {
			return []string{ownership.DerivedName(obj.(*mcsv1beta1.ServiceImport))}
		}},
		{&mcsv1beta1.ServiceImport{}, indexIPs, func(obj client.Object) []string {
			return format(desired.ImportAddresses(obj.(*mcsv1beta1.ServiceImport)))
		}},
		{&corev1.Service{}, indexIPs, func(obj client.Object) []string {
			return format(desired.ServiceAddresses(obj.(*corev1.Service)))
		}},
	} {
		if err := indexer.IndexField(ctx, index.object, index.name, index.keys); err != nil {
			return err
		}
	}
	return nil
}

func format(all []netip.Addr) []string {
	texts := make([]string, len(all))
	for i, addr := range all {
		texts[i] = addr.String()
	}
	return texts
}

// byLabel indexes objects by the value of a label.
func byLabel(label string) client.IndexerFunc {
	return func(obj client.Object) []string {
		if value := obj.GetLabels()[label]; value != "" {
			return []string{value}
		}
		return nil
	}
}

// namesOfService returns what a change of a Service concerns: its imports, and in a clusterset also the export of its name.
func (r *serviceReconciler) namesOfService(ctx context.Context, svc client.Object) []ctrl.Request {
	requests := r.importsOfService(ctx, svc)
	if r.clusterset != nil {
		requests = append(requests, sameName(ctx, svc)...)
	}
	return requests
}

// importsOfService returns the imports that own the Service, and the imports whose derived Service
// has its name. The latter include a Service of Karmada, a Service that the annotation names, and a
// Service that blocks the name. It also returns the imports of any namespace whose ips contain the
// ClusterIP of the Service: such an address is not a valid VIP.
func (r *serviceReconciler) importsOfService(ctx context.Context, svc client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for _, name := range ownership.OwnerImports(svc) {
		requests = append(requests, request(svc.GetNamespace(), name))
	}
	lists := [][]client.ListOption{{client.InNamespace(svc.GetNamespace()), client.MatchingFields{indexDerived: svc.GetName()}}}
	for _, ip := range desired.ServiceAddresses(svc.(*corev1.Service)) {
		lists = append(lists, []client.ListOption{client.MatchingFields{indexIPs: ip.String()}})
	}
	for _, options := range lists {
		var named mcsv1beta1.ServiceImportList
		// An error would be a programming error, such as a missing index.
		if err := r.cache.List(ctx, &named, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
			log.FromContext(ctx).Error(err, "cannot list the imports of a Service", "service", client.ObjectKeyFromObject(svc))
		}
		for i := range named.Items {
			requests = append(requests, request(named.Items[i].Namespace, named.Items[i].Name))
		}
	}
	return requests
}

// importsOfSlice returns the import in the label of the slice, and the imports whose derived
// Service the slice belongs to. A changed label arrives as two objects, so both imports are
// enqueued. For the exports that a slice of this cluster's own Services changes, see enqueueOwn.
func (r *serviceReconciler) importsOfSlice(ctx context.Context, object client.Object) []ctrl.Request {
	slice := object.(*discoveryv1.EndpointSlice)
	requests := importsOfDerived(ctx, r.cache, serviceOf(slice))
	for _, label := range []string{mcsv1beta1.LabelServiceName, mcs.LabelNativeOf} {
		if name := slice.Labels[label]; name != "" {
			requests = append(requests, request(slice.Namespace, name))
		}
	}
	return requests
}

// importsOfDerived returns the imports whose derived Service has this name.
func importsOfDerived(ctx context.Context, cache client.Reader, service types.NamespacedName) []ctrl.Request {
	if service.Name == "" {
		return nil
	}
	var named mcsv1beta1.ServiceImportList
	// An error would be a programming error, such as a missing index.
	if err := cache.List(ctx, &named, client.InNamespace(service.Namespace), client.MatchingFields{indexDerived: service.Name},
		client.UnsafeDisableDeepCopy); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "cannot list the imports of a Service", "service", service)
	}
	var requests []ctrl.Request
	for i := range named.Items {
		requests = append(requests, request(named.Items[i].Namespace, named.Items[i].Name))
	}
	return requests
}

func request(namespace, name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// sliceHandler enqueues the imports of a slice. It records the slice's associations before, because
// the next plan needs them.
func (r *serviceReconciler) sliceHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	enqueue := handler.EnqueueRequestsFromMapFunc(r.importsOfSlice)
	slice := func(object client.Object) *discoveryv1.EndpointSlice { return object.(*discoveryv1.EndpointSlice) }
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			r.changed(ctx, nil, slice(e.Object), true)
			r.enqueueOwn(ctx, nil, slice(e.Object))
			enqueue.Create(ctx, e, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			r.changed(ctx, slice(e.ObjectOld), slice(e.ObjectNew), true)
			r.enqueueOwn(ctx, slice(e.ObjectOld), slice(e.ObjectNew))
			enqueue.Update(ctx, e, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			// Without a clusterset, the cache lacks some slices: one of others that gets their label seems to be deleted.
			r.changed(ctx, slice(e.Object), nil, !e.DeleteStateUnknown && (r.clusterset != nil || ownership.OfSlice(e.Object)))
			r.enqueueOwn(ctx, slice(e.Object), nil)
			enqueue.Delete(ctx, e, q)
		},
	}
}

// enqueueOwn enqueues the names of this cluster's Services that a changed slice belongs to, if they
// are exported, or if endpoints of other clusters are attached to them. before is nil for a new
// slice, after is nil for a deleted one. An export that is created later enqueues itself.
func (r *serviceReconciler) enqueueOwn(ctx context.Context, before, after *discoveryv1.EndpointSlice) {
	if r.clusterset == nil || before != nil && after != nil && sameContent(before, after) {
		return
	}
	for _, slice := range []*discoveryv1.EndpointSlice{before, after} {
		if slice != nil && !isImported(slice) && (r.clusterset.exported(ctx, serviceOf(slice)) || r.attaches(ctx, serviceOf(slice))) {
			r.clusterset.names.changed(serviceOf(slice))
		}
	}
}

// sameContent reports whether two versions of a slice differ only in fields that were trimmed.
func sameContent(a, b *discoveryv1.EndpointSlice) bool {
	same := *a
	same.ResourceVersion, same.Generation = b.ResourceVersion, b.Generation
	return equality.Semantic.DeepEqual(&same, b)
}
