package peers

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/datapath"
)

// connectTimeout is long enough for one repetition of a lost SYN, and short enough that three failures in a row take
// less than five seconds.
const connectTimeout = 1500 * time.Millisecond

// ConnectTCP reports whether an endpoint accepts a TCP connection. It closes the connection without
// sending data. An error means that this host could not try.
func ConnectTCP(ctx context.Context, at datapath.Target) (accepted bool, err error) {
	conn, err := (&net.Dialer{Timeout: connectTimeout, KeepAlive: -1}).DialContext(ctx, "tcp", at.String())
	switch {
	case err == nil:
		_ = conn.Close() // it was accepted
		return true, nil
	case ctx.Err() != nil, slices.ContainsFunc(ownFaults, func(fault error) bool { return errors.Is(err, fault) }):
		return false, err
	default:
		return false, nil
	}
}

// ownFaults are errors of connect(2) and socket(2) that a host has for reasons of its own: files,
// ports or memory are used up, or its packet filter forbids it. A missing route is not among them: a
// router can report it, too.
var ownFaults = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EPERM}

// prober connects to the endpoints of peers.
type prober struct {
	wake chan struct{} // contains a token if a connection is due sooner than was known

	// mu guards the fields below, and the ways of all peers. It is locked after the Registry's mu, never before.
	mu       sync.Mutex
	schedule datapath.Schedule
	checked  map[types.NamespacedName]bool // names whose endpoints are connected to all the time
	until    time.Time                     // nothing was due until then
	faulty   time.Time                     // when a fault of this host was logged
}

// updateLocked plans the connections to a peer again, after a change of its way.
func (b *prober) updateLocked(way *datapath.Way) {
	if b.schedule.Update(way); !b.schedule.Next(way).Before(b.until) {
		return
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// probe connects to endpoints of the peers until ctx ends, and sleeps while no connection is due.
func (r *Registry) probe(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		r.prober.mu.Lock()
		now := r.options.Now()
		c, next := r.prober.schedule.Begin(now)
		r.prober.until = next
		r.prober.mu.Unlock()
		if c.Way != nil {
			running.Go(func() { r.connectTo(ctx, c) })
			continue
		}
		select {
		case <-ctx.Done():
		case <-r.prober.wake:
		case <-time.After(next.Sub(now)):
		}
	}
}

// connectTo makes a connection, and reports what it changes.
func (r *Registry) connectTo(ctx context.Context, c datapath.Connection) {
	accepted, err := r.options.Connect(ctx, c.At)
	r.prober.mu.Lock()
	now := r.options.Now()
	changed := r.prober.schedule.End(c, accepted, err == nil, now)
	r.prober.updateLocked(c.Way)
	if err != nil && ctx.Err() == nil && now.Sub(r.prober.faulty) >= time.Minute {
		r.prober.faulty = now
		r.options.Log.Error(err, "cannot test the endpoints of peers, because of a fault of this host: what is known of them stays as it is")
	}
	r.prober.mu.Unlock()
	if changed && c.Name.Name != "" {
		r.call([]types.NamespacedName{c.Name})
	} else if changed {
		r.mu.RLock()
		defer r.mu.RUnlock()
		if p := r.peers[c.Cluster]; p != nil {
			p.notify()
		}
	}
}

// Check sets the endpoints of a name to connect to all the time, by peer. The value of an endpoint is
// whether it fails, as far as this process does not know better. nil ends the checks of the name.
func (r *Registry) Check(name types.NamespacedName, targets map[string]map[datapath.Target]bool) {
	if r.options.Connect == nil {
		return
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.prober.mu.Lock()
	defer r.prober.mu.Unlock()
	if !r.prober.checked[name] && len(targets) == 0 {
		return
	}
	for id, p := range r.peers {
		p.way.Checks.Follow(name, targets[id])
		r.prober.updateLocked(&p.way)
	}
	if r.prober.checked[name] = true; len(targets) == 0 {
		delete(r.prober.checked, name)
	}
}

// Checked returns the endpoints of a name that are connected to all the time, by peer, and whether
// each of them fails.
func (r *Registry) Checked(name types.NamespacedName) map[string]map[datapath.Target]bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.prober.mu.Lock()
	defer r.prober.mu.Unlock()
	if !r.prober.checked[name] {
		return nil
	}
	all := map[string]map[datapath.Target]bool{}
	for id, p := range r.peers {
		if failing := p.way.Checks.Failing(name); len(failing) > 0 {
			all[id] = failing
		}
	}
	return all
}
