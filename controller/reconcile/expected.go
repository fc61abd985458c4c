package reconcile

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// expectFor limits how long a name waits for the caches to show its writes. A broken connection is
// noticed after about 10 s. After expectFor, the plan is made from what the caches show, and the
// API server refuses writes that are based on an old version.
const expectFor = 15 * time.Second

// awaited are the writes of a name that the caches do not show yet. A plan without them would repeat the
// writes, and the API server would refuse them.
type awaited struct {
	writes []written
	until  time.Time
}

// written is the result of a write.
type written struct {
	kind     reflect.Type
	version  string
	restores int
}

// shown is the newest resourceVersion of each kind in the caches. The zero value is empty.
//
// The resourceVersions of a kind only grow, so a cache that has shown a later version also shows
// the write (https://github.com/kubernetes/enhancements/issues/5504).
type shown struct {
	mu       sync.Mutex
	versions map[reflect.Type]string
	restores int // how often versions went back
}

// await records a write of a name.
func (s *shown) await(a *awaited, object client.Object, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.writes, a.until = append(a.writes, written{reflect.TypeOf(object), object.GetResourceVersion(), s.restores}), now.Add(expectFor)
}

// show records that a cache contains the object, or its deletion.
func (s *shown) show(object client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.versions == nil {
		s.versions = map[reflect.Type]string{}
	}
	if kind := reflect.TypeOf(object); reached(object.GetResourceVersion(), s.versions[kind]) {
		s.versions[kind] = object.GetResourceVersion()
	}
}

// begin records that a cache contains a new object, or another version of one that it had in a version, "" for a new one. A version goes
// back only if etcd was restored from a backup, or in a list, whose order is arbitrary. After a restore, no version from before means
// anything: nothing is waited for, and what is written next has not been shown. After a list, to forget costs nothing.
func (s *shown) begin(object client.Object, before string) {
	s.mu.Lock()
	if kind := reflect.TypeOf(object); !reached(object.GetResourceVersion(), cmp.Or(before, s.versions[kind])) {
		s.restores++
		delete(s.versions, kind)
	}
	s.mu.Unlock()
	s.show(object)
}

// lacks reports whether the caches lack a write. Call it before the caches are read for a plan.
func (s *shown) lacks(a *awaited, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.writes = slices.DeleteFunc(a.writes, func(w written) bool {
		return w.restores < s.restores || reached(s.versions[w.kind], w.version) || now.After(a.until)
	})
	return len(a.writes) > 0
}

// reached reports whether a resourceVersion is equal to another or later. An empty version is not
// equal or later.
func reached(version, other string) bool {
	if other == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order >= 0
}

// before records the object of each event before the handler enqueues a name, so that the next pass finds
// the write. Only one handler of a kind may do it: each gets the events in their order, but one can be far
// behind another, and its events would look like those of a restored etcd.
func (s *shown) before(next handler.EventHandler) handler.EventHandler {
	return showing{s, next}
}

type showing struct {
	*shown
	next handler.EventHandler
}

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Create implements handler.EventHandler.
func (s showing) Create(ctx context.Context, e event.CreateEvent, q queue) {
	s.begin(e.Object, "")
	s.next.Create(ctx, e, q)
}

// Update implements handler.EventHandler.
func (s showing) Update(ctx context.Context, e event.UpdateEvent, q queue) {
	s.begin(e.ObjectNew, e.ObjectOld.GetResourceVersion())
	s.next.Update(ctx, e, q)
}

// Delete implements handler.EventHandler.
func (s showing) Delete(ctx context.Context, e event.DeleteEvent, q queue) {
	s.show(e.Object)
	s.next.Delete(ctx, e, q)
}

// Generic implements handler.EventHandler.
func (s showing) Generic(ctx context.Context, e event.GenericEvent, q queue) {
	s.next.Generic(ctx, e, q)
}
