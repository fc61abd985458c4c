package peers

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/internal/member"
)

// homeCluster is this cluster.
type homeCluster struct {
	uid     string               // of its namespace kube-system; "" while it is not known
	lasts   bool                 // the controller's namespace exists and is not being deleted
	members map[string]announced // what controllers of this cluster announce, by their namespaces
}

// announced is a Lease with an announcement.
type announced struct {
	member.Announcement
	created int64  // when the Lease was created, in seconds
	version string // its resourceVersion
}

func trimAnnounced(object any) (announced, bool) {
	l := object.(*coordinationv1.Lease)
	return announced{member.Read(l), l.CreationTimestamp.Unix(), l.ResourceVersion}, l.Name == member.Name
}

// isOlder reports whether the Lease in a namespace is older than another one, by its namespace if both are from one second.
func (h *homeCluster) isOlder(a, b string) bool {
	return cmp.Or(cmp.Compare(h.members[a].created, h.members[b].created), cmp.Compare(a, b)) < 0
}

// members is the table of announcements of this cluster.
type members struct{ *homeCluster }

// put and drop do not report a new heartbeat, which is no change.
func (m members) put(id types.NamespacedName, value announced, changed []types.NamespacedName) []types.NamespacedName {
	was, known := m.members[id.Namespace]
	m.members[id.Namespace] = value
	if known && was.Same(value.Announcement) {
		return changed
	}
	return append(changed, id)
}

func (m members) drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	delete(m.members, id.Namespace)
	return append(changed, id)
}

func (members) ids() iter.Seq[types.NamespacedName] { return nil } // an informer needs none

// systemNamespace is the namespace whose UID stands for a cluster.
const systemNamespace = "kube-system"

// namespaces is the table of the two Namespaces of this cluster that matter.
type namespaces struct {
	*homeCluster
	own string // that of the controller
}

func (n namespaces) put(id types.NamespacedName, value *corev1.Namespace, changed []types.NamespacedName) []types.NamespacedName {
	before := *n.homeCluster
	if id.Name == systemNamespace {
		n.uid = string(value.UID)
	}
	if id.Name == n.own {
		n.lasts = value.DeletionTimestamp == nil
	}
	if n.uid == before.uid && n.lasts == before.lasts {
		return changed
	}
	return append(changed, id)
}

func (n namespaces) drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	if id.Name != n.own {
		return changed
	}
	n.lasts = false
	return append(changed, id)
}

func (namespaces) ids() iter.Seq[types.NamespacedName] { return nil } // an informer needs none

func (n namespaces) trim(object any) (*corev1.Namespace, bool) {
	namespace := object.(*corev1.Namespace)
	return namespace, namespace.Name == systemNamespace || namespace.Name == n.own
}

// watchHome watches the Namespaces and announcements of this cluster, and the Secrets of peers, until ctx ends. It
// returns when it has received all existing objects.
func (r *Registry) watchHome(ctx context.Context) error {
	two := namespaces{&r.home, r.options.Namespace}
	var all []toolscache.InformerSynced
	for _, watched := range []struct {
		object client.Object
		to     toolscache.ResourceEventHandler
	}{
		{&corev1.Namespace{}, handler(newSink(r, two, nil, two.trim, r.homeChanged))},
		{&coordinationv1.Lease{}, handler(newSink(r, members{&r.home}, nil, trimAnnounced, r.homeChanged))},
		{&corev1.Secret{}, handler(newSink(r, r.secrets, nil, trimSecret, r.secretsChanged))},
	} {
		seen, err := r.watch(ctx, watched.object, watched.to)
		if err != nil {
			return err
		}
		all = append(all, seen)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), all...) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.awaited = map[string]bool{}
	for id := range r.peers {
		r.awaited[id] = true
	}
	return nil
}

// watch calls a handler for the objects of a type. The returned function reports whether the
// handler has received all existing objects.
func (r *Registry) watch(ctx context.Context, object client.Object, of toolscache.ResourceEventHandler) (seen toolscache.InformerSynced, err error) {
	informer, err := r.options.Cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", object, err)
	}
	registration, err := informer.AddEventHandler(of)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", object, err)
	}
	return registration.HasSynced, nil
}

// handler returns an event handler that passes the objects of an informer to a sink. Informers pass
// only objects of their own type.
func handler[T any](to *sink[T]) toolscache.ResourceEventHandler {
	set := func(object any) {
		if k, err := to.Keep(object); err == nil {
			to.Set(k)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, object any) { set(object) },
		DeleteFunc: func(object any) {
			if last, missed := object.(toolscache.DeletedFinalStateUnknown); missed {
				object = last.Obj
			}
			_ = to.Remove(object)
		},
	}
}

// homeChanged looks at the own announcement, and at all peers: the identity of this cluster affects them.
func (r *Registry) homeChanged([]types.NamespacedName) {
	select {
	case r.announcing <- struct{}{}:
	default: // a token is already waiting, and the next check reads all changes
	}
	r.notifyAll()
}
