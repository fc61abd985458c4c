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

// publisher collects the edits of all reflectors, and publishes an Index of them.
type publisher struct {
	mu       sync.Mutex
	state    *index.State
	unlisted map[string]namespaces  // of each kind: those whose first list has not arrived
	listed   bool                   // the ServiceImports of at least one namespace are there
	headless map[index.Key]struct{} // services whose EndpointSlices are not listed
	changes  []change               // not published yet

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
	if p.unlisted[kind] == nil {
		p.unlisted[kind] = namespaces{}
	}
	p.unlisted[kind][namespace] = struct{}{}
}

// arrived says that a list of a kind is in the state.
func (p *publisher) arrived(kind, namespace string) {
	delete(p.unlisted[kind], namespace)
	if kind == importKind.name {
		p.listed = true
	} else {
		p.forget(namespace)
	}
}

// forget removes the services of a namespace from those whose EndpointSlices are not listed.
func (p *publisher) forget(namespace string) {
	maps.DeleteFunc(p.headless, func(key index.Key, _ struct{}) bool { return namespace == "" || key.Namespace() == namespace })
}

func newPublisher(o Observer) *publisher {
	return &publisher{
		state: index.NewState(), unlisted: map[string]namespaces{}, headless: map[index.Key]struct{}{},
		observer: o, built: make(chan index.Change, 1), dirty: make(chan struct{}, 1), synced: make(chan struct{}),
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
	delete(p.headless, key)
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
	delete(p.headless, e.Key)
	if e.headless && p.unlisted[sliceKind.name].has(e.Namespace()) {
		p.headless[e.Key] = struct{}{}
	}
}

// A zone's serial is the number of 1/64 seconds since 1970, so that it grows over restarts, and a
// secondary server that was away for less than 388 days compares it correctly (RFC 1982 3.2: half
// of 32 bits). It grows by one with each Index, and can run ahead of the clock by maxLead, one
// second. The first serial of a process is a second ahead: so it is larger than any before a
// restart, whatever the rate of changes was. Replicas have serials of their own. That of the later
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
	if !p.listed {
		p.mu.Unlock()
		return // nothing is known yet
	}
	imports := p.unlisted[importKind.name]
	next := &View{whole: len(imports)+len(p.unlisted[sliceKind.name]) == 0, unlisted: maps.Clone(imports), headless: maps.Clone(p.headless)}
	edited, changes := p.state.Drain(), p.changes
	p.changes = nil
	services, endpoints := p.state.Services(), p.state.Endpoints()
	p.mu.Unlock()

	whole := before != nil && before.whole
	if whole { // the first complete Index contains everything
		edited, changes = p.split(edited, changes)
	}
	p.replace(next, edited)
	p.programmed(changes)
	p.observer.Published(services, endpoints, next.whole)
	if next.whole && !whole {
		close(p.synced)
	}
}

// split moves services that take long to build into the backlog. The slices of a large service are
// not known here, so all slice changes of this round count as late.
func (p *publisher) split(edited index.Change, changes []change) (index.Change, []change) {
	edited, added := p.backlog.Take(edited, mostAtOnce)
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
	p.replace(&View{whole: true}, p.backlog.Done(built))
	p.programmed(p.late)
	p.late = nil
}

// replace publishes a View whose Index contains the change.
func (p *publisher) replace(next *View, change index.Change) {
	now := serialAt(time.Now())
	last := index.New(now + maxLead)
	if before := p.published.Load(); before != nil {
		last = before.Index
	}
	next.Index = last.With(change, now)
	p.published.Store(next)
}

func (p *publisher) programmed(changes []change) {
	for _, c := range changes {
		p.observer.Programmed(c.kind, max(0, time.Since(time.Unix(0, c.at)))) // clocks differ
	}
}
