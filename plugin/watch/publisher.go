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
	watched  namespaces             // of ServiceImports
	missing  map[string]namespaces  // of each kind: those whose first list has not arrived
	arrival  bool                   // a first list has arrived since the last View
	headless map[index.Key]struct{} // services whose EndpointSlices are not listed
	noted    bool                   // headless has changed since the last View
	changes  []change               // not published yet
	more     chan struct{}          // closed by the next View that contains a first list

	backlog index.Backlog     // used by the publisher's goroutine only
	built   chan index.Change // the finished build of the backlog
	late    []change          // changes of services in the backlog

	observer  Observer
	dirty     chan struct{} // contains one token while there are unpublished edits
	synced    chan struct{} // closed when every store has synced
	published atomic.Pointer[View]
}

// namespaces is a set of namespaces, in which "" is all of them.
type namespaces map[string]struct{}

func (n namespaces) has(namespace string) bool {
	_, all := n[""]
	_, this := n[namespace]
	return all || this
}

// wait says that a list of a kind is still to arrive.
func (p *publisher) wait(kind, namespace string) {
	if p.missing[kind] == nil {
		p.missing[kind] = namespaces{}
	}
	p.missing[kind][namespace] = struct{}{}
	if kind == importKind.name {
		p.watched[namespace] = struct{}{}
	}
}

// arrived says that a list of a kind is in the state.
func (p *publisher) arrived(kind, namespace string) {
	delete(p.missing[kind], namespace)
	p.arrival = true
	if kind == sliceKind.name {
		p.forget(namespace)
	}
}

// forget removes the services of a namespace from those whose EndpointSlices are not listed.
func (p *publisher) forget(namespace string) {
	p.noted = true
	maps.DeleteFunc(p.headless, func(key index.Key, _ struct{}) bool { return namespace == "" || key.Namespace() == namespace })
}

func newPublisher(o Observer) *publisher {
	return &publisher{
		state: index.NewState(), watched: namespaces{}, missing: map[string]namespaces{}, headless: map[index.Key]struct{}{},
		observer: o, built: make(chan index.Change, 1), dirty: make(chan struct{}, 1), synced: make(chan struct{}), more: make(chan struct{}),
	}
}

// change is a change to one object. It measures the time until its answer.
type change struct {
	kind string
	at   int64 // in nanoseconds since 1970, from the object; 0 if unknown
}

// edit changes the state after a change to one object. f reports whether an answer can change; it
// is called with mu held.
func (p *publisher) edit(c change, f func(*publisher) bool) {
	p.mu.Lock()
	changed := f(p)
	if changed && c.at != 0 && p.published.Load() != nil { // changes older than this process are not measured
		p.changes = append(p.changes, c)
	}
	p.mu.Unlock()
	if changed {
		select {
		case p.dirty <- struct{}{}:
		default: // the publisher has not run yet, and will include this edit
		}
	}
}

func (p *publisher) setImport(e entry) bool {
	p.note(e)
	return p.state.SetService(e.Entry)
}

func (p *publisher) removeImport(key index.Key) bool {
	p.unnote(key)
	return p.state.DeleteService(key)
}

func (p *publisher) replaceImports(namespace string, all []entry) {
	entries := make([]index.Entry, len(all))
	p.forget(namespace)
	for i, e := range all {
		entries[i] = e.Entry
		p.note(e)
	}
	p.state.ReplaceServices(namespace, entries)
}

// note remembers which services are headless, until the EndpointSlices of their namespace are listed.
func (p *publisher) note(e entry) {
	if !e.headless || !p.missing[sliceKind.name].has(e.Namespace()) {
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
// second. With each first list it is a second ahead: so it is larger than any before a restart, or a
// reload with other options, whatever the rate of changes was. Replicas have serials of their own. That of the later
// state is the larger one if a second, and what their clocks differ by, is between the two.
const (
	serialsPerSecond = 64
	maxLead          = serialsPerSecond
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
	if len(p.missing[importKind.name]) == len(p.watched) {
		p.mu.Unlock()
		return // no ServiceImport is known yet
	}
	next, arrival := p.viewLocked(before), p.arrival
	p.arrival, p.noted = false, false
	edited, changes := p.state.Drain(), p.changes
	p.changes = nil
	services, endpoints := p.state.Services(), p.state.Endpoints()
	p.mu.Unlock()

	most, serial := mostAtOnce, serialAt(time.Now())
	if arrival { // a list is answered as a whole
		most, serial = math.MaxInt, serial+maxLead
	}
	edited, changes = p.split(edited, changes, most)
	p.replace(next, edited, serial)
	p.programmed(changes)
	p.observer.Published(services, endpoints, next.whole)
	if arrival {
		p.tellMore()
	}
	if next.whole && (before == nil || !before.whole) {
		close(p.synced)
	}
}

// viewLocked returns the next View, without its Index.
func (p *publisher) viewLocked(before *View) *View {
	next := &View{watched: p.watched}
	if before != nil {
		*next = *before
	}
	if before == nil || p.arrival {
		imports, parts := p.missing[importKind.name], p.missing[sliceKind.name]
		next.unlisted, next.partless, next.whole = maps.Clone(imports), maps.Clone(parts), len(imports)+len(parts) == 0
	}
	if before == nil || p.noted {
		next.headless, next.above = maps.Clone(p.headless), above(p.headless)
	}
	return next
}

// tellMore wakes those that wait for a View with more lists.
func (p *publisher) tellMore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.more)
	p.more = make(chan struct{})
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
	p.replace(&next, p.backlog.Done(built), serialAt(time.Now()))
	p.programmed(p.late)
	p.late = nil
}

// replace publishes a View whose Index contains the change.
func (p *publisher) replace(next *View, change index.Change, serial uint32) {
	last := index.New(serial - 1)
	if before := p.published.Load(); before != nil {
		last = before.Index
	}
	next.Index = last.With(change, serial)
	p.published.Store(next)
}

func (p *publisher) programmed(changes []change) {
	for _, c := range changes {
		p.observer.Programmed(c.kind, max(0, time.Since(time.Unix(0, c.at)))) // clocks differ
	}
}
