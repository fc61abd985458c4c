package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/peers"
)

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
