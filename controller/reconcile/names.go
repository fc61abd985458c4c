package reconcile

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/controller/peers"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// nameSource enqueues the names that changed in a peer or in slices of this cluster's own Services.
type nameSource struct {
	ctx     context.Context //nolint:containedctx // of the manager: the Registry's callbacks have none
	home    string
	peers   *peers.Registry
	cache   client.Reader
	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[ctrl.Request]
	early   []types.NamespacedName // received before Start
	waiting waiting
}

func newNameSource(ctx context.Context, home string, registry *peers.Registry, cache client.Reader) *nameSource {
	s := &nameSource{ctx: ctx, home: home, peers: registry, cache: cache}
	registry.OnChange(s.changed)
	registry.OnState(s.importsOf)
	return s
}

// importsOf enqueues the imports that have something of a cluster whose state has changed: in their
// record, their status or their slices. The names that a peer exports, the Registry reports itself. For
// a peer that was not read since the start, only the imports and slices show which of its data this
// cluster has. The properties of this cluster itself concern every import.
func (s *nameSource) importsOf(cluster string) {
	var imports mcsv1beta1.ServiceImportList
	s.list(&imports)
	for i := range imports.Items {
		if imp := &imports.Items[i]; cluster == s.home || mentions(imp, cluster) {
			s.changed(client.ObjectKeyFromObject(imp))
		}
	}
	var endpoints discoveryv1.EndpointSliceList
	s.list(&endpoints, client.MatchingLabels{mcsv1beta1.LabelSourceCluster: cluster})
	for i := range endpoints.Items {
		if of := &endpoints.Items[i]; of.Labels[mcsv1beta1.LabelServiceName] != "" {
			s.changed(types.NamespacedName{Namespace: of.Namespace, Name: of.Labels[mcsv1beta1.LabelServiceName]})
		}
	}
}

// mentions reports whether the record or the status of an import contains a cluster. The record is not
// decoded: a name too many costs one plan, and a record has up to 64 KiB.
func mentions(imp *mcsv1beta1.ServiceImport, cluster string) bool {
	of := func(status mcsv1beta1.ClusterStatus) bool { return status.Cluster == cluster }
	return strings.Contains(imp.Annotations[mcs.AnnotationExports], strconv.Quote(cluster)) || slices.ContainsFunc(imp.Status.Clusters, of)
}

// list reads the cache. The only possible errors are programming errors.
func (s *nameSource) list(all client.ObjectList, of ...client.ListOption) {
	if err := s.cache.List(s.ctx, all, append(of, client.UnsafeDisableDeepCopy)...); err != nil && s.ctx.Err() == nil {
		ctrl.Log.Error(err, "cannot list what has something of a cluster")
	}
}

func (s *nameSource) changed(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue == nil {
		s.early = append(s.early, name)
		return
	}
	s.addAll(name)
}

// addAll also adds the imports whose derived Service has this name: endpoints may belong to it now.
func (s *nameSource) addAll(name types.NamespacedName) {
	s.add(name)
	for _, request := range importsOfDerived(s.ctx, s.cache, name) {
		s.add(request.NamespacedName)
	}
}

// add gives a low priority to names without an import in this cluster. When clusters report many
// names at once, existing imports stay up to date, and started names are finished before new ones
// start.
func (s *nameSource) add(name types.NamespacedName) {
	request := ctrl.Request{NamespacedName: name}
	if queue, ok := s.queue.(priorityqueue.PriorityQueue[ctrl.Request]); ok && !s.imported(name) {
		s.waiting.add(name, time.Now())
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, request)
		return
	}
	s.queue.Add(request)
}

// imported reports whether this cluster has the import.
func (s *nameSource) imported(name types.NamespacedName) bool {
	err := s.cache.Get(s.ctx, name, new(mcsv1beta1.ServiceImport), &client.GetOptions{UnsafeDisableDeepCopy: new(true)})
	return err == nil
}

// Start receives the queue of the controller.
func (s *nameSource) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = queue
	go s.raise(ctx, queue)
	for _, name := range s.early {
		s.addAll(name)
	}
	s.early = nil
	return nil
}

// WaitForSync delays the first plans, for a few seconds, until all clusters have been read.
// Otherwise the missing data would be written a moment later.
func (s *nameSource) WaitForSync(ctx context.Context) error {
	select {
	case <-s.peers.Settled():
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("wait for the peers' first answers"), ctx.Err())
	}
}

// String returns the name for logs.
func (s *nameSource) String() string { return "clusters of the clusterset" }

// New names have a low priority, so that started names are finished first. While updates arrive
// faster than they are handled, new names would wait forever. So the names that have waited longest
// get the normal priority, a few at a time.
const (
	raiseAfter = 10 * time.Second
	raiseEvery = time.Second
)

// waiting contains the names that were enqueued with low priority. The zero value is empty.
type waiting struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
	order []arrival // in the order in which they came, with those that do not wait any more
}

// arrival is when a name began to wait.
type arrival struct {
	name types.NamespacedName
	at   time.Time
}

func (w *waiting) add(name types.NamespacedName, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since == nil {
		w.since = map[types.NamespacedName]time.Time{}
	}
	if _, waits := w.since[name]; !waits {
		w.since[name] = now
		w.order = append(w.order, arrival{name, now})
	}
}

// forget removes a name that is handled. It no longer waits, regardless of the result.
func (w *waiting) forget(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.since, name)
}

// take returns the names that have waited longest, at most n, and removes them.
func (w *waiting) take(n int, now time.Time) (old []types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; len(w.order) > 0 && len(old) < n && now.Sub(w.order[0].at) >= raiseAfter; w.order = w.order[1:] {
		if first := w.order[0]; w.since[first.name].Equal(first.at) {
			old = append(old, first.name)
			delete(w.since, first.name)
		}
	}
	return old
}

// raise enqueues names that have waited long with the normal priority, until ctx ends.
func (s *nameSource) raise(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	_ = poll(ctx, raiseEvery, false, func(context.Context) (bool, error) {
		for _, name := range s.waiting.take(workers, time.Now()) {
			queue.Add(ctrl.Request{NamespacedName: name})
		}
		return false, nil
	})
}

// remembered returns the other clusters whose exports the imports record. It takes one cluster of
// each namespace in turn, first the cluster that most imports of the namespace record. So users
// with permission to write imports in one namespace cannot push out the clusters that other
// namespaces record.
func remembered(ctx context.Context, cache client.Reader) ([]string, error) {
	var all mcsv1beta1.ServiceImportList
	if err := cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	counts := map[string]map[string]int{} // number of imports, by namespace and cluster
	for i := range all.Items {
		imp := &all.Items[i]
		for _, cluster := range observed.RecordedClusters(imp) {
			if counts[imp.Namespace] == nil {
				counts[imp.Namespace] = map[string]int{}
			}
			counts[imp.Namespace][cluster]++
		}
	}
	namespaces := slices.Sorted(maps.Keys(counts))
	lists := make([][]string, len(namespaces))
	for i, namespace := range namespaces {
		of := counts[namespace]
		lists[i] = slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	}
	return inTurn(lists), nil
}

// inTurn takes the first of each list, then the second, and so on. Each text occurs once.
func inTurn(lists [][]string) (all []string) {
	known := map[string]bool{}
	for at, more := 0, true; more; at++ {
		more = false
		for _, list := range lists {
			if at >= len(list) {
				continue
			}
			more = true
			if text := list[at]; !known[text] {
				known[text] = true
				all = append(all, text)
			}
		}
	}
	return all
}
