package reconcile

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
)

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
	tick := time.NewTicker(raiseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, name := range s.waiting.take(workers, time.Now()) {
			queue.Add(ctrl.Request{NamespacedName: name})
		}
	}
}
