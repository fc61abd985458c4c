package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// fromNative is what this cluster has under an import's own name, and the pause until the next
// gather if nothing else happens, 0 for never.
type fromNative struct {
	*observed.Native
	again time.Duration
}

// gatherNative reads what this cluster has under an import's own name. svc is the Service of this
// name, and namespace its namespace, or nil.
func (c *clusterset) gatherNative(ctx context.Context, key types.NamespacedName, svc *corev1.Service, namespace *corev1.Namespace, m *memory) (fromNative, error) {
	n := fromNative{Native: &observed.Native{Service: svc}}
	var err error
	if n.Slices, err = c.attached(ctx, key); err != nil {
		return n, err
	}
	if n.Local, err = c.homeSlices(ctx, key); err == nil && namespace != nil {
		n.again = c.allowNative(key, namespace, n.Native, m)
	}
	return n, err
}

// attached returns the slices that the controller attached to the Service with an import's own name.
func (c *clusterset) attached(ctx context.Context, key types.NamespacedName) ([]*discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	if err := c.cache.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{indexNative: key.Name}); err != nil {
		return nil, fmt.Errorf("list the slices attached to Service %s: %w", key, err)
	}
	return slices.DeleteFunc(pointers(list.Items), func(slice *discoveryv1.EndpointSlice) bool { return !isAttached(slice) }), nil
}

// allowNative sets what depends on the namespace and on the time. It returns the pause until the
// next gather.
func (c *clusterset) allowNative(key types.NamespacedName, namespace *corev1.Namespace, n *observed.Native, m *memory) time.Duration {
	active := len(n.Slices) > 0 || n.Service != nil && ownership.NativeService(n.Service)
	selected := c.natives.selector != nil && c.natives.have(namespace, key.Name, c.own)
	n.Vacant = m.native.left(n.Service != nil, active || selected, c.now())
	left := m.disallowed.left(selected, active, c.now(), c.grace)
	n.Allowed = selected || left > 0
	return sooner(left, n.Vacant)
}

// attaches reports whether endpoints of other clusters are attached to a Service.
func (r *serviceReconciler) attaches(ctx context.Context, service types.NamespacedName) bool {
	var list discoveryv1.EndpointSliceList
	err := r.cache.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingFields{indexNative: service.Name}, client.UnsafeDisableDeepCopy)
	return err == nil && len(list.Items) > 0
}
