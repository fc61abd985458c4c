package watch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

// hub is where the reflectors' edits meet, and where an Index is published from.
type hub struct {
	mu       sync.Mutex
	state    *index.State
	unsynced map[string]int         // stores of each kind that have not had their first list
	headless map[index.Key]struct{} // services; nil from when the EndpointSlices have synced
	changes  []change               // that are not published yet

	backlog index.Backlog     // of the publisher alone
	built   chan index.Change // the one of the backlog that was being built
	late    []change          // of services in the backlog

	observer  Observer
	dirty     chan struct{} // holds one token while there are unpublished edits
	synced    chan struct{} // closed when every store has synced
	published atomic.Pointer[View]
}

func newHub(o Observer) *hub {
	return &hub{
		state: index.NewState(), unsynced: map[string]int{}, headless: map[index.Key]struct{}{},
		observer: o, built: make(chan index.Change, 1), dirty: make(chan struct{}, 1), synced: make(chan struct{}),
	}
}

// change is a change to one object, for the time it takes to its answer.
type change struct {
	kind string
	at   int64 // in nanoseconds since 1970, as the object says; 0 where it does not
}

// edit changes the state by what became of one object. f says whether an answer could change by it; it is called with mu.
func (h *hub) edit(c change, f func(*hub) bool) {
	h.mu.Lock()
	changed := f(h)
	if changed && c.at != 0 && h.published.Load() != nil { // what is older than ourselves took no time of ours
		h.changes = append(h.changes, c)
	}
	h.mu.Unlock()
	if changed {
		select {
		case h.dirty <- struct{}{}:
		default: // the publisher has not yet looked, and will see this edit too
		}
	}
}

func (h *hub) setImport(e entry) bool {
	h.note(e)
	return h.state.SetService(e.Entry)
}

func (h *hub) removeImport(key index.Key) bool {
	delete(h.headless, key)
	return h.state.DeleteService(key)
}

func (h *hub) replaceImports(namespace string, all []entry) {
	entries := make([]index.Entry, len(all))
	maps.DeleteFunc(h.headless, func(key index.Key, _ struct{}) bool { return namespace == "" || key.Namespace() == namespace })
	for i, e := range all {
		entries[i] = e.Entry
		h.note(e)
	}
	h.state.ReplaceServices(namespace, entries)
}

// note remembers which services are headless, as long as that counts.
func (h *hub) note(e entry) {
	if h.headless == nil {
		return
	}
	delete(h.headless, e.Key)
	if e.headless {
		h.headless[e.Key] = struct{}{}
	}
}

// A zone's serial is the number of 1/64 seconds since 1970, so that it grows over restarts too, and a secondary that was away for less
// than 388 days compares it right (RFC 1982 3.2: half of 32 bits). It grows by one with each Index, and may run ahead of the clock by
// maxLead, ten seconds. The first one has all of that: after a restart the serial is larger than any before, however fast it was.
const (
	serialsPerSecond = 64
	maxLead          = 10 * serialsPerSecond
)

func serialAt(t time.Time) uint32 { return uint32(t.UnixNano() / int64(time.Second/serialsPerSecond)) }

// pause is how long the next Index has to wait after one with that serial: never long, as a clock that was set back is no reason to
// keep an answer from anybody.
func pause(serial uint32, now time.Time) time.Duration {
	if int32(serial-serialAt(now)) > maxLead {
		return time.Second / serialsPerSecond
	}
	return 0
}

// mostAtOnce is how many endpoints and ports one Index waits for: some milliseconds of work. Services that have more are made beside the
// publisher, and follow with an Index of their own, so that others' changes are answered meanwhile.
const mostAtOnce = 1 << 14

// publish makes a new Index of the edits, until ctx ends. Edits that come now and then wait for nothing. All that come while an Index is
// made, or has to wait, go into the next: a flood of them costs 64 a second.
func (h *hub) publish(ctx context.Context) {
	var building sync.WaitGroup
	defer building.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.dirty:
			h.publishOnce()
		case built := <-h.built:
			h.publishBuilt(built)
		}
		if next, ok := h.backlog.Next(); ok {
			building.Go(func() { h.built <- next.Build() })
		}
		v := h.published.Load()
		if v == nil {
			continue
		}
		if wait := pause(v.Index.Serial(), time.Now()); wait > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	}
}

func (h *hub) publishOnce() {
	before := h.published.Load()
	h.mu.Lock()
	if h.unsynced[importKind.name] > 0 {
		h.mu.Unlock()
		return // what is known so far is not all there is
	}
	next := &View{whole: h.unsynced[sliceKind.name] == 0}
	if next.whole {
		h.headless = nil
	}
	next.headless = maps.Clone(h.headless)
	edited, changes := h.state.Drain(), h.changes
	h.changes = nil
	services, endpoints := h.state.Services(), h.state.Endpoints()
	h.mu.Unlock()

	whole := before != nil && before.whole
	if whole { // The first whole Index has all there is.
		edited, changes = h.split(edited, changes)
	}
	h.replace(next, edited)
	h.programmed(changes)
	h.observer.Published(services, endpoints, next.whole)
	if next.whole && !whole {
		close(h.synced)
	}
}

// split keeps for later what takes long. Which slices are of a large service is not known here, so all that came with one count as late.
func (h *hub) split(edited index.Change, changes []change) (index.Change, []change) {
	edited, added := h.backlog.Take(edited, mostAtOnce)
	if added {
		isSlice := func(c change) bool { return c.kind == sliceKind.name }
		for _, c := range changes {
			if isSlice(c) {
				h.late = append(h.late, c)
			}
		}
		changes = slices.DeleteFunc(changes, isSlice)
	}
	return edited, changes
}

// publishBuilt publishes a service of the backlog.
func (h *hub) publishBuilt(built index.Change) {
	h.replace(&View{whole: true}, h.backlog.Done(built))
	h.programmed(h.late)
	h.late = nil
}

// replace publishes the View with an Index that has the change.
func (h *hub) replace(next *View, change index.Change) {
	now := serialAt(time.Now())
	last := index.New(now + maxLead)
	if before := h.published.Load(); before != nil {
		last = before.Index
	}
	next.Index = last.With(change, now)
	h.published.Store(next)
}

func (h *hub) programmed(changes []change) {
	for _, c := range changes {
		h.observer.Programmed(c.kind, max(0, time.Since(time.Unix(0, c.at)))) // clocks differ
	}
}
