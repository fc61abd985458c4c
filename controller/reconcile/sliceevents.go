package reconcile

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// sliceHandler enqueues the imports of a slice. It records the slice's associations before, because
// the next plan needs them.
func (r *serviceReconciler) sliceHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	enqueue := handler.EnqueueRequestsFromMapFunc(r.importsOfSlice)
	slice := func(object client.Object) *discoveryv1.EndpointSlice { return object.(*discoveryv1.EndpointSlice) }
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			r.changed(ctx, nil, slice(e.Object))
			r.enqueueOwn(ctx, nil, slice(e.Object))
			enqueue.Create(ctx, e, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			r.changed(ctx, slice(e.ObjectOld), slice(e.ObjectNew))
			r.enqueueOwn(ctx, slice(e.ObjectOld), slice(e.ObjectNew))
			enqueue.Update(ctx, e, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			r.changed(ctx, slice(e.Object), nil)
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
