package watch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

// hub is where the reflectors' edits meet, and where an Index is published from.
type hub struct {
	mu       sync.Mutex
	state    *index.State
	unsynced int // stores that have not had their first list

	observer  Observer
	dirty     chan struct{} // holds one token while there are unpublished edits
	synced    chan struct{} // closed by the first publication
	published atomic.Pointer[index.Index]
}

func newHub(o Observer) *hub {
	return &hub{state: index.NewState(), observer: o, dirty: make(chan struct{}, 1), synced: make(chan struct{})}
}

// edit changes the state. f says whether an answer could change by it.
func (h *hub) edit(f func(*index.State) bool) {
	h.mu.Lock()
	changed := f(h.state)
	h.mu.Unlock()
	if changed {
		select {
		case h.dirty <- struct{}{}:
		default: // the publisher has not yet looked, and will see this edit too
		}
	}
}

// publish makes a new Index of the edits, until ctx ends. All edits that come in while one is made go into the next: a burst costs
// few of them, and a single edit waits for nothing.
func (h *hub) publish(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.dirty:
			h.publishOnce()
		}
	}
}

func (h *hub) publishOnce() {
	h.mu.Lock()
	if h.unsynced > 0 {
		h.mu.Unlock()
		return // what is known so far is not all there is
	}
	change := h.state.Drain()
	services, endpoints := h.state.Services(), h.state.Endpoints()
	h.mu.Unlock()

	now := uint32(time.Now().Unix()) // a serial that grows over restarts
	before := h.published.Load()
	if before == nil {
		before = index.New(now)
	}
	first := h.published.Swap(before.With(change, now)) == nil
	h.observer.Published(services, endpoints)
	if first {
		close(h.synced)
	}
}
