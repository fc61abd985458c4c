package reconcile

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/controller/peers"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// clusterset gathers the exports of all clusters under a name: those of this cluster from the
// manager's caches, the others from the peers' snapshots.
type clusterset struct {
	home         string
	cache        client.Reader
	peers        *peers.Registry
	names        *nameSource
	maxEndpoints int       // endpoints in a slice
	began        time.Time // start of this process; older changes are not measured
	now          func() time.Time

	grace     time.Duration // for an export without its Service, and a namespace without its labels
	vacancies vacancies

	imports    Namespaces // to which peers' exports are imported
	own        string     // the controller's own namespace
	deselected deselected
	exporter   *exporter // nil: this cluster exports from all namespaces
	natives    natives
}

// fromClusterset is what the clusterset exports under a name, and the pause until the next gather
// if nothing else happens, 0 for never.
type fromClusterset struct {
	*observed.Clusterset
	native *observed.Native
	again  time.Duration
}

// gather reads what the clusterset exports under a name.
func (c *clusterset) gather(ctx context.Context, key types.NamespacedName) (*fromClusterset, error) {
	c.names.waiting.forget(key)
	snapshot := c.peers.Snapshot(key)
	cs := &observed.Clusterset{Home: c.home, Silent: snapshot.Unknown, SilentExpired: snapshot.UnknownExpired, MaxEndpoints: c.maxEndpoints}
	var err error
	if cs.Export, err = found(ctx, c.cache, key, new(mcsv1beta1.ServiceExport)); err != nil {
		return nil, err
	}
	home := merge.Member{Cluster: c.home, Properties: c.peers.Properties()}
	if cs.Export != nil {
		home.Export = merge.TrimExport(cs.Export)
		if home.Slices, err = c.homeSlices(ctx, key); err != nil {
			return nil, err
		}
	}
	svc, err := found(ctx, c.cache, key, new(corev1.Service))
	if err != nil {
		return nil, err
	}
	if svc != nil && !ownership.NativeService(svc) {
		home.Service = merge.TrimService(svc)
	}
	cs.Members = slices.Concat(snapshot.Active, snapshot.Expired, []merge.Member{home})
	var again time.Duration
	cs.Vacant, again = c.vacancies.of(key, cs.Members, func(m merge.Member) bool {
		// Kubernetes creates a slice for each Service with a selector, even without pods.
		populating := m.Cluster == c.home && svc != nil && len(svc.Spec.Selector) > 0 && len(m.Slices) == 0
		return m.Service == nil || populating
	}, c.now(), c.grace)
	namespace, err := found(ctx, c.cache, types.NamespacedName{Name: key.Namespace}, new(corev1.Namespace))
	if err != nil {
		return nil, err
	}
	cs.Namespace = namespace != nil && namespace.DeletionTimestamp == nil
	if cs.Namespace {
		again, err = c.selectPeers(ctx, key, cs, namespace, c.selectExport(key.Name, cs, namespace, again))
	}
	if err != nil {
		return nil, err
	}
	native, err := c.gatherNative(ctx, key, svc, namespace)
	return &fromClusterset{cs, native.Native, sooner(again, native.again)}, err
}

// exported reports whether this cluster has an export of the name.
func (c *clusterset) exported(ctx context.Context, name types.NamespacedName) bool {
	err := c.cache.Get(ctx, name, new(mcsv1beta1.ServiceExport), &client.GetOptions{UnsafeDisableDeepCopy: new(true)})
	return err == nil
}

// homeSlices returns the slices of a Service of this cluster, sorted by name. They are read-only.
func (c *clusterset) homeSlices(ctx context.Context, service types.NamespacedName) ([]*discoveryv1.EndpointSlice, error) {
	all, err := slicesOf(ctx, c.cache, service)
	return slices.DeleteFunc(all, func(slice *discoveryv1.EndpointSlice) bool {
		return isImported(slice) || slice.AddressType == discoveryv1.AddressTypeFQDN
	}), err
}

// nameSource enqueues the names that changed in a peer or in slices of this cluster's own Services.
type nameSource struct {
	ctx     context.Context //nolint:containedctx // of the manager: the Registry's callbacks have none
	peers   *peers.Registry
	cache   client.Reader
	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[ctrl.Request]
	early   []types.NamespacedName // received before Start
	waiting waiting
}

func newNameSource(ctx context.Context, registry *peers.Registry, cache client.Reader) *nameSource {
	s := &nameSource{ctx: ctx, peers: registry, cache: cache}
	registry.OnChange(s.changed)
	registry.OnState(func(string) { s.allImports() })
	return s
}

// allImports enqueues all imports, because the state of a peer has changed. For a peer that was not
// read since the start, only the imports show which of its data this cluster has.
func (s *nameSource) allImports() {
	var all mcsv1beta1.ServiceImportList
	// The only possible errors are programming errors.
	if err := s.cache.List(s.ctx, &all, client.UnsafeDisableDeepCopy); err != nil && s.ctx.Err() == nil {
		ctrl.Log.Error(err, "cannot list imports")
	}
	for i := range all.Items {
		s.changed(client.ObjectKeyFromObject(&all.Items[i]))
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

// namesIn returns the names that peers export in a namespace that is created or deleted (C21).
func (c *clusterset) namesIn(_ context.Context, namespace client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for _, name := range c.peers.Names(namespace.GetName()) {
		requests = append(requests, ctrl.Request{NamespacedName: name})
	}
	return requests
}

// sameName returns the name of a Service or a ServiceExport.
func sameName(_ context.Context, obj client.Object) []ctrl.Request {
	return []ctrl.Request{request(obj.GetNamespace(), obj.GetName())}
}

// introduced measures the time from the newest export of an import until now. The clocks of other
// clusters can differ, so the minimum is 0.
func (c *clusterset) introduced(of []merge.Member) {
	var newest time.Time
	for _, m := range of {
		if m.Exports() && m.Export.Created.After(newest) {
			newest = m.Export.Created.Time
		}
	}
	c.observe("export", newest)
}

// written measures the time from the change of an endpoint, which Kubernetes records on the slice,
// until now.
func (c *clusterset) written(slice *discoveryv1.EndpointSlice) {
	changed, err := time.Parse(time.RFC3339Nano, slice.Annotations[corev1.EndpointsLastChangeTriggerTime])
	if err == nil {
		c.observe("endpoints", changed)
	}
}

func (c *clusterset) observe(kind string, changed time.Time) {
	if changed.After(c.began) {
		importDuration.WithLabelValues(kind).Observe(max(0, c.now().Sub(changed).Seconds()))
	}
}
