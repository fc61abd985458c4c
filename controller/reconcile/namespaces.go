package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/controller/peers"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Namespaces selects the namespaces that a cluster imports to, or exports from. The zero value selects all but those of the cluster
// itself (mcs.System), and that of the controller.
type Namespaces struct {
	selector labels.Selector
	// named are the namespaces that the selector names.
	named []string
}

// UnmarshalText implements encoding.TextUnmarshaler, from a label selector. An empty text selects all
// namespaces.
func (n *Namespaces) UnmarshalText(text []byte) error {
	*n = Namespaces{}
	if len(text) == 0 {
		return nil
	}
	selector, err := labels.Parse(string(text))
	if err != nil {
		return fmt.Errorf("want a label selector for namespaces, such as team=shop,env in (test, prod): %w", err)
	}
	n.selector = selector
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if r.Key() == corev1.LabelMetadataName && slices.Contains([]selection.Operator{selection.Equals, selection.DoubleEquals, selection.In}, r.Operator()) {
			n.named = append(n.named, r.Values().UnsortedList()...)
		}
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (n Namespaces) MarshalText() ([]byte, error) {
	if n.selector == nil {
		return nil, nil
	}
	return []byte(n.selector.String()), nil
}

// have reports whether a name of a namespace is selected. own is the namespace of the controller.
func (n Namespaces) have(namespace *corev1.Namespace, name, own string) bool {
	return !n.deny(namespace.Name, name, own) && (n.selector == nil || n.selector.Matches(labels.Set(namespace.Labels)))
}

// deny reports whether a name is one of the cluster itself, which no other label than the namespace's name selects.
func (n Namespaces) deny(namespace, name, own string) bool {
	return (namespace == own || mcs.System(namespace, name)) && !slices.Contains(n.named, namespace)
}

// ofNamespaces omits edits of a Namespace that change nothing which is read of it, such as those of annotations.
var ofNamespaces = builder.WithPredicates(predicate.Funcs{UpdateFunc: matters})

// matters reports whether an edit changes the labels or the deletion of a Namespace.
func matters(e event.UpdateEvent) bool {
	old, edited := e.ObjectOld, e.ObjectNew
	return old.GetUID() != edited.GetUID() || !maps.Equal(old.GetLabels(), edited.GetLabels()) || !old.GetDeletionTimestamp().Equal(edited.GetDeletionTimestamp())
}

// selectPeers removes what the peers export under a name whose namespace is not selected. It returns
// the pause until the next gather, 0 for never.
func (c *clusterset) selectPeers(key types.NamespacedName, imp *mcsv1beta1.ServiceImport, cs *observed.Clusterset, namespace *corev1.Namespace, d *deselected) time.Duration {
	if c.imports.selector == nil && !c.imports.deny(key.Namespace, key.Name, c.own) {
		return 0
	}
	selected := c.imports.have(namespace, key.Name, c.own)
	imported := imp != nil && len(observed.RecordedClusters(imp)) > 0
	left := d.left(selected, imported, c.now(), c.grace)
	if !selected && left == 0 {
		cs.Members = slices.DeleteFunc(cs.Members, func(m merge.Member) bool { return m.Cluster != c.home })
		cs.Silent, cs.SilentExpired, cs.SilentAssumed = nil, nil, nil
	}
	return left
}

// exporter announces the namespaces that this cluster exports from.
type exporter struct {
	Namespaces
	own        string
	cache      client.Reader
	peers      *peers.Registry
	now        func() time.Time
	grace      time.Duration
	wake       chan struct{}
	mu         sync.Mutex
	deselected map[string]deselected // by namespace
}

// exports reports whether this cluster exports a name. A namespace that was announced stays for a
// while when it is no longer selected; again is then the rest of that time.
func (e *exporter) exports(namespace *corev1.Namespace, name string) (exports bool, again time.Duration) {
	switch {
	case e.deny(namespace.Name, name, e.own):
		return false, 0
	case e.selector == nil:
		return true, 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	selected, d := e.have(namespace, name, e.own), e.deselected[namespace.Name]
	again = d.left(selected, e.peers.Announced(namespace.Name), e.now(), e.grace)
	if e.deselected[namespace.Name] = d; d == (deselected{}) {
		delete(e.deselected, namespace.Name)
	}
	return selected || again > 0, again
}

// NeedLeaderElection returns true: a replica that does not write announces nothing.
func (*exporter) NeedLeaderElection() bool { return true }

// Start announces the namespaces until ctx ends.
func (e *exporter) Start(ctx context.Context) error {
	for {
		pause := time.Hour
		var all corev1.NamespaceList
		if err := e.cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list Namespaces: %w", err)
		}
		var names []string
		for i := range all.Items {
			exports, again := e.exports(&all.Items[i], "")
			if exports {
				names = append(names, all.Items[i].Name)
			}
			if again > 0 {
				pause = min(pause, again)
			}
		}
		slices.Sort(names)
		e.peers.SetExportNamespaces(names)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-e.wake:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// exportsIn returns this cluster's exports in a namespace.
func (e *exporter) exportsIn(ctx context.Context, namespace client.Object) []ctrl.Request {
	select {
	case e.wake <- struct{}{}:
	default: // a token is already waiting, and the next look reads all changes
	}
	var all mcsv1beta1.ServiceExportList
	if err := e.cache.List(ctx, &all, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "cannot list ServiceExports", "namespace", namespace.GetName())
	}
	requests := make([]ctrl.Request, len(all.Items))
	for i := range all.Items {
		requests[i] = request(namespace.GetName(), all.Items[i].Name)
	}
	return requests
}

// selectExport removes what this cluster exports under a name, if it does not export from the
// namespace. It returns the pause until the next gather, 0 for never.
func (c *clusterset) selectExport(name string, cs *observed.Clusterset, namespace *corev1.Namespace) time.Duration {
	if cs.Export == nil {
		return 0
	}
	exports, left := c.exporter.exports(namespace, name)
	if cs.Unselected = !exports; cs.Unselected {
		for i := range cs.Members {
			if cs.Members[i].Cluster == c.home {
				cs.Members[i].Export = nil
			}
		}
	}
	return left
}
