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
	unsynced map[string]int         // number of stores of each kind that have not received their first list
	headless map[index.Key]struct{} // services; nil after the EndpointSlices have synced
	changes  []change               // not published yet

	backlog index.Backlog     // used by the publisher's goroutine only
	built   chan index.Change // the finished build of the backlog
	late    []change          // changes of services in the backlog

	observer  Observer
	dirty     chan struct{} // contains one token while there are unpublished edits
	synced    chan struct{} // closed when every store has synced
	published atomic.Pointer[View]
}

func newPublisher(o Observer) *publisher {
	return &publisher{
		state: index.NewState(), unsynced: map[string]int{}, headless: map[index.Key]struct{}{},
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
	maps.DeleteFunc(p.headless, func(key index.Key, _ struct{}) bool { return namespace == "" || key.Namespace() == namespace })
	for i, e := range all {
		entries[i] = e.Entry
		p.note(e)
	}
	p.state.ReplaceServices(namespace, entries)
}

// note remembers which services are headless, until the EndpointSlices have synced.
func (p *publisher) note(e entry) {
	if p.headless == nil {
		return
	}
	delete(p.headless, e.Key)
	if e.headless {
		p.headless[e.Key] = struct{}{}
	}
}

// A zone's serial is the number of 1/64 seconds since 1970, so that it grows over restarts, and a
// secondary server that was away for less than 388 days compares it correctly (RFC 1982 3.2: half
// of 32 bits). It grows by one with each Index, and can run ahead of the clock by maxLead, ten
// seconds. The first serial of a process is ten seconds ahead: so it is larger than any before a
// restart, whatever the rate of changes was.
const (
	serialsPerSecond = 64
	maxLead          = 10 * serialsPerSecond
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
	if p.unsynced[importKind.name] > 0 {
		p.mu.Unlock()
		return // the known objects are not complete yet
	}
	next := &View{whole: p.unsynced[sliceKind.name] == 0}
	if next.whole {
		p.headless = nil
	}
	next.headless = maps.Clone(p.headless)
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
