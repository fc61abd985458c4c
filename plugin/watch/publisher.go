package watch

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

// publisher collects the edits of all reflectors, and publishes an Index of them.
type publisher struct {
	mu       sync.Mutex
	state    *index.State
	known    map[string]known       // of each kind
	arrival  bool                   // a first list has arrived since the last View
	headless map[index.Key]struct{} // services whose EndpointSlices are not listed
	noted    bool                   // headless has changed since the last View
	changes  []change               // not published yet
	edited   bool                   // there are edits since the last View
	next     chan struct{}          // closed by the next View, if somebody waits for it
	floor    uint32                 // of the next View's serial, if not 0

	backlog index.Backlog     // used by the publisher's goroutine only
	built   chan index.Change // the finished build of the backlog
	late    []change          // changes of services in the backlog

	observer  Observer
	dirty     chan struct{} // contains one token while there are unpublished edits
	synced    chan struct{} // closed when every store has synced
	published atomic.Pointer[View]
}

// wait says that a list of a kind is still to arrive.
func (p *publisher) wait(kind, namespace string) {
	if _, ok := p.known[kind]; !ok {
		p.known[kind] = known{namespaces{}, map[string]uint64{}}
	}
	p.known[kind].watched[namespace] = struct{}{}
}

// forget removes the services of a namespace from those whose EndpointSlices are not listed.
func (p *publisher) forget(namespace string) {
	p.noted = true
	maps.DeleteFunc(p.headless, func(key index.Key, _ struct{}) bool { return namespace == "" || key.Namespace() == namespace })
}

func newPublisher(o Observer) *publisher {
	return &publisher{
		state: index.NewState(), known: map[string]known{}, headless: map[index.Key]struct{}{}, observer: o,
		built: make(chan index.Change, 1), dirty: make(chan struct{}, 1), synced: make(chan struct{}),
	}
}

// change is a change to one object, or to all objects of a list.
type change struct {
	kind, namespace string // of the list
	version         uint64 // of all objects of the list
	at              int64  // in nanoseconds since 1970, from the object, to measure the time until its answer; 0 if unknown
}

// edit changes the state after a change. f reports whether an answer can change; it is called with mu
// held.
func (p *publisher) edit(c change, f func(*publisher) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := f(p)
	if changed && c.at != 0 && p.published.Load() != nil { // changes older than this process are not measured
		p.changes = append(p.changes, c)
	}
	lists := p.known[c.kind].at
	if _, known := lists[c.namespace]; !known {
		p.arrival = true
		if c.kind == sliceKind.name {
			p.forget(c.namespace)
		}
	}
	lists[c.namespace], p.edited = c.version, true
	if changed || p.next != nil { // who waits for a View waits for a version
		p.wake()
	}
}

func (p *publisher) wake() {
	select {
	case p.dirty <- struct{}{}:
	default: // the publisher has not run yet, and will include all edits
	}
}

// after returns a channel that is closed by the next View. Its serial will be above that of a View of another publisher, also of those that
// will follow that in the next seconds: a secondary server that gets the zone from one and then from the other compares the two.
func (p *publisher) after(other *View) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = make(chan struct{})
	}
	now, last := p.published.Load(), other.Index.Serial()
	if isAbove := now != nil && int32(now.Index.Serial()-last) > 0; !isAbove {
		p.floor = max(last, serialAt(time.Now())) + reloadLead
	}
	if p.edited || p.floor != 0 {
		p.wake()
	}
	return p.next
}

func (p *publisher) setImport(e index.Entry) bool {
	p.note(e)
	return p.state.SetService(e)
}

func (p *publisher) removeImport(key index.Key) bool {
	p.unnote(key)
	return p.state.DeleteService(key)
}

func (p *publisher) replaceImports(namespace string, all []index.Entry) {
	p.forget(namespace)
	for _, e := range all {
		p.note(e)
	}
	p.state.ReplaceServices(namespace, all)
}

// note remembers which services are headless, until the EndpointSlices of their namespace are listed.
func (p *publisher) note(e index.Entry) {
	if !e.Headless() || !p.known[sliceKind.name].lacks(e.Namespace()) {
		p.unnote(e.Key)
	} else if _, known := p.headless[e.Key]; !known {
		p.headless[e.Key] = struct{}{}
		p.noted = true
	}
}

func (p *publisher) unnote(key index.Key) {
	if _, known := p.headless[key]; known {
		delete(p.headless, key)
		p.noted = true
	}
}

// A zone's serial is the number of 1/64 seconds since 1970, so that it grows over restarts, and a
// secondary server that was away for less than 388 days compares it correctly (RFC 1982 3.2: half
// of 32 bits). It grows by one with each Index, and can run ahead of the clock by maxLead, one
// second. With each first list it is a second ahead: so it is larger than any before a restart, whatever the rate of changes was. After a
// reload with other options it is up to reloadLead ahead. Replicas have serials of their own. That of the later
// state is the larger one if a second, and what their clocks differ by, is between the two.
const (
	serialsPerSecond = 64
	maxLead          = serialsPerSecond
	reloadLead       = 7 * serialsPerSecond // two more than a reload waits for at most
)

func serialAt(t time.Time) uint32 { return uint32(t.UnixNano() / int64(time.Second/serialsPerSecond)) }

// pause returns how long the next Index must wait after one with that serial. It is never long: a
// clock that was set back must not delay answers.
func pause(serial uint32, now time.Time) time.Duration {
	if int32(serial-serialAt(now)) > maxLead {
		return time.Second / serialsPerSecond
	}
	return 0
}

// mostAtOnce is the number of endpoints and ports that one Index waits for: some milliseconds of
// work. Services with more are built beside the publisher, and get an Index of their own, so that
// other changes are answered meanwhile.
const mostAtOnce = 1 << 14

// publish builds a new Index from the edits, until ctx ends. Occasional edits do not wait. All
// edits that arrive while an Index is built, or has to wait, go into the next one: a flood of edits
// costs 64 Indexes a second.
func (p *publisher) publish(ctx context.Context) {
	var building sync.WaitGroup
	defer building.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.dirty:
			p.publishOnce()
		case built := <-p.built:
			p.publishBuilt(built)
		}
		if next, ok := p.backlog.Next(); ok {
			building.Go(func() { p.built <- next.Build() })
		}
		v := p.published.Load()
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

func (p *publisher) publishOnce() {
	before := p.published.Load()
	p.mu.Lock()
	if len(p.known[importKind.name].at) == 0 {
		p.mu.Unlock()
		return // no ServiceImport is known yet
	}
	next, arrival, floor := p.viewLocked(before), p.arrival, p.floor
	p.arrival, p.noted, p.edited, p.floor = false, false, false, 0
	edited, changes := p.state.Drain(), p.changes
	p.changes = nil
	services, endpoints := p.state.Services(), p.state.Endpoints()
	p.mu.Unlock()

	most, serial := mostAtOnce, serialAt(time.Now())
	if arrival { // a list is answered as a whole
		most, serial = math.MaxInt, serial+maxLead
	}
	edited, changes = p.split(edited, changes, most)
	p.replace(next, edited, serial, floor)
	p.programmed(changes)
	p.observer.Published(services, endpoints, next.whole)
	if next.whole && (before == nil || !before.whole) {
		close(p.synced)
	}
}

// viewLocked returns the next View, without its Index.
func (p *publisher) viewLocked(before *View) *View {
	next := &View{whole: true, known: make(map[string]known, len(p.known))}
	for kind, k := range p.known {
		next.known[kind] = known{k.watched, maps.Clone(k.at)}
		next.whole = next.whole && len(k.at) == len(k.watched)
	}
	if before == nil || p.noted {
		next.headless, next.above = maps.Clone(p.headless), above(p.headless)
	} else {
		next.headless, next.above = before.headless, before.above
	}
	return next
}

// split moves services that take long to build into the backlog. The slices of a large service are
// not known here, so all slice changes of this round count as late.
func (p *publisher) split(edited index.Change, changes []change, most int) (index.Change, []change) {
	edited, added := p.backlog.Take(edited, most)
	if added {
		isSlice := func(c change) bool { return c.kind == sliceKind.name }
		for _, c := range changes {
			if isSlice(c) {
				p.late = append(p.late, c)
			}
		}
		changes = slices.DeleteFunc(changes, isSlice)
	}
	return edited, changes
}

// publishBuilt publishes a service of the backlog.
func (p *publisher) publishBuilt(built index.Change) {
	next := *p.published.Load()
	p.replace(&next, p.backlog.Done(built), serialAt(time.Now()), 0)
	p.programmed(p.late)
	p.late = nil
}

// replace publishes a View whose Index contains the change. Its serial is at least the floor, if that is not 0.
func (p *publisher) replace(next *View, change index.Change, serial, floor uint32) {
	last := index.New(serial - 1)
	if before := p.published.Load(); before != nil {
		last = before.Index
	}
	next.Index, next.late = last.With(change, serial), p.backlog.Busy()
	if floor != 0 && int32(floor-next.Index.Serial()) > 0 {
		next.Index = next.Index.Renumbered(floor)
	}
	p.published.Store(next)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next != nil {
		close(p.next)
		p.next = nil
	}
}

func (p *publisher) programmed(changes []change) {
	for _, c := range changes {
		p.observer.Programmed(c.kind, max(0, time.Since(time.Unix(0, c.at)))) // clocks differ
	}
}
