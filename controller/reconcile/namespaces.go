package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
)

// Namespaces selects the namespaces that a cluster imports to. The zero value selects all.
type Namespaces struct {
	selector labels.Selector
	// named are the namespaces that the selector names.
	named []string
}

// everywhere are namespaces that every cluster has and that have no common owner. A selector does
// not select them by any other label than their name.
var everywhere = []string{"kube-system", "kube-public", "kube-node-lease"}

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

// have reports whether peers' exports of a name are imported to its namespace. own is the namespace
// of the controller.
func (n Namespaces) have(namespace *corev1.Namespace, name, own string) bool {
	if n.selector == nil {
		return true
	}
	special := slices.Contains(everywhere, namespace.Name) || namespace.Name == own ||
		namespace.Name == metav1.NamespaceDefault && name == "kubernetes"
	return n.selector.Matches(labels.Set(namespace.Labels)) && (!special || slices.Contains(n.named, namespace.Name))
}

// selectPeers removes what the peers export under a name whose namespace is not selected. It returns
// the pause until the next gather.
func (c *clusterset) selectPeers(ctx context.Context, key types.NamespacedName, cs *observed.Clusterset, namespace *corev1.Namespace, again time.Duration) (time.Duration, error) {
	if c.imports.selector == nil {
		return again, nil
	}
	selected := c.imports.have(namespace, key.Name, c.own)
	imp, err := found(ctx, c.cache, key, new(mcsv1beta1.ServiceImport))
	if err != nil {
		return again, err
	}
	imported := imp != nil && len(observed.RecordedClusters(imp)) > 0
	left := c.deselected.left(key, selected, imported, c.now(), c.grace)
	switch {
	case selected:
	case left > 0:
		if again == 0 || left < again {
			again = left
		}
	default:
		cs.Members = slices.DeleteFunc(cs.Members, func(m merge.Member) bool { return m.Cluster != c.home })
		cs.Silent, cs.SilentExpired = nil, nil
	}
	return again, nil
}

// deselected are the names whose namespace is no longer selected. They stay for a while: labels of a
// namespace are lost by mistake, and come back.
type deselected struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// left returns how long a name stays. selected is the current selection, and imported reports
// whether the name was imported before.
func (d *deselected) left(name types.NamespacedName, selected, imported bool, now time.Time, grace time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if selected || !imported {
		delete(d.since, name)
		return 0
	}
	if d.since == nil {
		d.since = map[types.NamespacedName]time.Time{}
	}
	if _, known := d.since[name]; !known {
		d.since[name] = now
	}
	return max(0, d.since[name].Add(grace).Sub(now))
}
