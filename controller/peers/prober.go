package peers

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/clusterset-dns/multicluster/controller/datapath"
)

// The bounds of the connections to endpoints of peers, for all peers together. Each rate has a burst
// of one, so that there are at most 100 in any second.
const (
	baselineRate = 30 // a second, while the API servers of the peers answer, and for checks
	silentRate   = 68 // a second, to the endpoints of silent peers
	// A silent peer gets at most mostAsked connections a second, and fewest if many peers are silent.
	mostAsked, fewest = 32, 3
	// Long enough for one repetition of a lost SYN, and short enough that three failures in a row take
	// less than five seconds.
	connectTimeout = 1500 * time.Millisecond
	// maxConnecting is the maximum number of connections to one peer at a time.
	maxConnecting = 64
	// proberRest is the pause if no connection is due.
	proberRest = 200 * time.Millisecond
)

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

// connecting is a connection to make to an endpoint of a peer. done notes its result, and forget that
// there is none. forget is called with the lock.
type connecting struct {
	peer   *peer
	at     datapath.Target
	done   func(accepted bool)
	forget func()
}

// probe connects to endpoints of the peers until ctx ends. The endpoints of peers that answer and
// those that are checked share one rate.
func (r *Registry) probe(ctx context.Context) {
	var loops sync.WaitGroup
	shared := rate.NewLimiter(baselineRate, 1)
	loops.Go(func() { r.connectTo(ctx, shared, r.nextTarget(false)) })
	loops.Go(func() { r.connectTo(ctx, shared, r.nextCheck) })
	loops.Go(func() { r.connectTo(ctx, rate.NewLimiter(silentRate, 1), r.nextTarget(true)) })
	loops.Wait()
}

// connectTo makes the connections that next returns. next gets the ID of the last peer. It is called
// with the lock.
func (r *Registry) connectTo(ctx context.Context, limiter *rate.Limiter, next func(last string, now time.Time) *connecting) {
	var running sync.WaitGroup
	defer running.Wait()
	last := ""
	for limiter.Wait(ctx) == nil {
		r.mu.Lock()
		c := next(last, r.options.Now())
		if c != nil {
			c.peer.connecting++
		}
		r.mu.Unlock()
		if c == nil {
			select {
			case <-ctx.Done():
			case <-time.After(proberRest):
			}
			continue
		}
		last = c.peer.id
		running.Go(func() {
			accepted, err := r.options.Connect(ctx, c.at)
			r.mu.Lock()
			c.peer.connecting--
			if err != nil {
				c.forget()
				r.reportOwnFaultLocked(ctx, err)
			}
			r.mu.Unlock()
			if err == nil {
				c.done(accepted)
			}
		})
	}
}

// reportOwnFaultLocked logs, at most once a minute, why this host cannot test endpoints.
func (r *Registry) reportOwnFaultLocked(ctx context.Context, err error) {
	if now := r.options.Now(); ctx.Err() == nil && now.Sub(r.faulty) >= time.Minute {
		r.faulty = now
		r.options.Log.Error(err, "cannot test the endpoints of peers, because of a fault of this host: what is known of them stays as it is")
	}
}

// turnLocked returns the peers that can get another connection, those after the last one first.
func (r *Registry) turnLocked(last string, wanted func(*peer) bool) []*peer {
	var turn []*peer
	for _, p := range r.peers {
		if p.connecting < maxConnecting && wanted(p) {
			turn = append(turn, p)
		}
	}
	slices.SortFunc(turn, func(a, b *peer) int {
		if (a.id > last) != (b.id > last) {
			return -strings.Compare(a.id, b.id)
		}
		return strings.Compare(a.id, b.id)
	})
	return turn
}

// nextTarget returns a function that returns a connection to a peer whose API server is silent, or
// answers, or nil.
func (r *Registry) nextTarget(silent bool) func(last string, now time.Time) *connecting {
	return func(last string, now time.Time) *connecting {
		alike := r.turnLocked(last, func(p *peer) bool { return p.path.IsSilent() == silent })
		sample := min(max(silentRate/max(len(alike), 1), fewest), mostAsked)
		for _, p := range alike {
			if at, due := p.path.Due(now, sample); due {
				return &connecting{p, at, func(accepted bool) { p.answered(at, accepted) }, func() { p.path.Forget(at) }}
			}
		}
		return nil
	}
}

// answered notes the result of a connection to an endpoint.
func (p *peer) answered(at datapath.Target, accepted bool) {
	p.registry.mu.Lock()
	now := p.registry.options.Now()
	before := p.path.Verdict(now)
	p.path.Answer(at, accepted, now)
	changed := p.path.Verdict(now) != before
	p.registry.mu.Unlock()
	if changed {
		p.notify()
	}
}
