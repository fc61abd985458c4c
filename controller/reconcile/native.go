package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// natives are the own names of imports. The zero value allows none.
type natives struct {
	allowed    Namespaces
	deselected deselected
	mu         sync.Mutex
	deleted    map[types.NamespacedName]time.Time // Services of names that are, or may be, active; zero if the Service exists
}

// fromNative is what this cluster has under an import's own name, and the pause until the next
// gather if nothing else happens, 0 for never.
type fromNative struct {
	*observed.Native
	again time.Duration
}

// gatherNative reads what this cluster has under an import's own name. svc is the Service of this
// name, and namespace its namespace, or nil.
func (c *clusterset) gatherNative(ctx context.Context, key types.NamespacedName, svc *corev1.Service, namespace *corev1.Namespace) (fromNative, error) {
	n := fromNative{Native: &observed.Native{Service: svc}}
	var err error
	if n.Slices, err = c.attached(ctx, key); err != nil {
		return n, err
	}
	if n.Local, err = c.homeSlices(ctx, key); err == nil && namespace != nil {
		n.again = c.allowNative(key, namespace, n.Native)
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
func (c *clusterset) allowNative(key types.NamespacedName, namespace *corev1.Namespace, n *observed.Native) time.Duration {
	active := len(n.Slices) > 0 || n.Service != nil && ownership.NativeService(n.Service)
	selected := c.natives.allowed.selector != nil && c.natives.allowed.have(namespace, key.Name, c.own)
	n.Vacant = c.natives.vacant(key, n.Service, active || selected, c.now())
	left := c.natives.deselected.left(key, selected, active, c.now(), c.grace)
	n.Allowed = selected || left > 0
	return left
}

// vacant returns how long a name is left alone after the Service of this name was deleted, by its user or by anybody
// else: a command that creates it again would fail if the controller had taken the name. svc is the Service of this name, or nil. active
// reports whether the own name is in use, or may be.
func (n *natives) vacant(key types.NamespacedName, svc *corev1.Service, active bool, now time.Time) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	deleted, followed := n.deleted[key]
	switch {
	case svc != nil && active:
		if n.deleted == nil {
			n.deleted = map[types.NamespacedName]time.Time{}
		}
		n.deleted[key] = time.Time{}
		return 0
	case svc != nil || !followed:
		delete(n.deleted, key)
		return 0
	case deleted.IsZero():
		// A name that is no longer wanted is perhaps never gathered again.
		maps.DeleteFunc(n.deleted, func(_ types.NamespacedName, at time.Time) bool { return !at.IsZero() && now.Sub(at) > replaceGrace })
		deleted = now
		n.deleted[key] = now
	}
	left := deleted.Add(replaceGrace).Sub(now)
	if left <= 0 {
		delete(n.deleted, key)
	}
	return max(0, left)
}

// forget records that the controller itself deletes the Service of a name: nobody else needs the
// name.
func (n *natives) forget(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.deleted, key)
}

// attaches reports whether endpoints of other clusters are attached to a Service.
func (r *serviceReconciler) attaches(ctx context.Context, service types.NamespacedName) bool {
	var list discoveryv1.EndpointSliceList
	err := r.cache.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingFields{indexNative: service.Name}, client.UnsafeDisableDeepCopy)
	return err == nil && len(list.Items) > 0
}
