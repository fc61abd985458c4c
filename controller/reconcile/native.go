package reconcile

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// gatherNative reads what this cluster has under an import's own name. svc is the Service of this
// name, and namespace its namespace, or nil.
func (c *clusterset) gatherNative(ctx context.Context, p *pass, svc *corev1.Service, namespace *corev1.Namespace) (err error) {
	n := &observed.Native{Service: svc}
	p.state.Native = n
	if n.Slices, err = c.attached(ctx, p.key); err != nil {
		return err
	}
	if n.Local, err = c.homeSlices(ctx, p.key); err != nil || namespace == nil {
		return err
	}
	active := len(n.Slices) > 0 || n.Service != nil && ownership.NativeService(n.Service)
	selected := c.natives.selector != nil && c.natives.have(namespace, p.key.Name, c.own)
	n.Vacant = p.native.left(n.Service != nil, active || selected, c.now())
	left := p.disallowed.left(selected, active, c.now(), c.grace)
	n.Allowed = selected || left > 0
	p.next(left)
	p.next(n.Vacant)
	return nil
}

// attached returns the slices that the controller attached to the Service with an import's own name.
func (c *clusterset) attached(ctx context.Context, key types.NamespacedName) ([]*discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	if err := c.cache.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{indexNative: key.Name}); err != nil {
		return nil, fmt.Errorf("list the slices attached to Service %s: %w", key, err)
	}
	return slices.DeleteFunc(pointers(list.Items), func(slice *discoveryv1.EndpointSlice) bool { return !isAttached(slice) }), nil
}

// attaches reports whether endpoints of other clusters are attached to a Service.
func (r *serviceReconciler) attaches(ctx context.Context, service types.NamespacedName) bool {
	var list discoveryv1.EndpointSliceList
	err := r.cache.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingFields{indexNative: service.Name}, client.UnsafeDisableDeepCopy)
	return err == nil && len(list.Items) > 0
}
