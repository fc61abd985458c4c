package reconcile

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
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

// expected records the writes for each name that the caches do not show yet. A plan without them
// would repeat the writes, and the API server would refuse them.
//
// The resourceVersions of a kind only grow, so a cache that has shown a later version also shows
// the write (https://github.com/kubernetes/enhancements/issues/5504). The zero value is empty.
type expected struct {
	mu    sync.Mutex
	by    map[types.NamespacedName]expectation
	shown map[reflect.Type]string // the newest resourceVersion of each kind in the caches
}

type expectation struct {
	writes []written
	until  time.Time
}

// written is the result of a write.
type written struct {
	kind    reflect.Type
	version string
}

// wrote records a write for a name.
func (e *expected) wrote(of types.NamespacedName, object client.Object, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.by == nil {
		e.by = map[types.NamespacedName]expectation{}
	}
	writes := append(e.by[of].writes, written{reflect.TypeOf(object), object.GetResourceVersion()})
	e.by[of] = expectation{writes, now.Add(expectFor)}
}

// show records that a cache contains the object, or its deletion.
func (e *expected) show(object client.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shown == nil {
		e.shown = map[reflect.Type]string{}
	}
	if kind := reflect.TypeOf(object); reached(object.GetResourceVersion(), e.shown[kind]) {
		e.shown[kind] = object.GetResourceVersion()
	}
}

// begin records that a cache contains a new object, or another version of one that it had in a version, "" for a new one. A version goes
// back only if etcd was restored from a backup, or in a list, whose order is arbitrary. After a restore, no version from before means
// anything: nothing is waited for, and what is written next has not been shown. After a list, to forget costs nothing.
func (e *expected) begin(object client.Object, before string) {
	e.mu.Lock()
	if kind := reflect.TypeOf(object); !reached(object.GetResourceVersion(), cmp.Or(before, e.shown[kind])) {
		clear(e.by)
		delete(e.shown, kind)
	}
	e.mu.Unlock()
	e.show(object)
}

// missing reports whether the caches lack a write for the name. Call it before the caches are read
// for a plan.
func (e *expected) missing(of types.NamespacedName, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, found := e.by[of]
	if !found {
		return false
	}
	x.writes = slices.DeleteFunc(x.writes, func(w written) bool { return reached(e.shown[w.kind], w.version) })
	if len(x.writes) == 0 || now.After(x.until) {
		delete(e.by, of)
		return false
	}
	e.by[of] = x
	return true
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

// showing tells what the object of each event is, before the handler enqueues a name, so that the
// next pass finds the write. Only one handler of a kind may tell it: each gets the events in their order, but one can be far behind
// another, and its events would look like those of a restored etcd.
func (e *expected) showing(next handler.EventHandler) handler.EventHandler {
	return showing{e, next}
}

type showing struct {
	*expected
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
