package peers

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
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
	mostAsked, fewest = 16, 3
	// Long enough for one repetition of a lost SYN, and short enough that three failures in a row take
	// less than five seconds.
	connectTimeout = 1500 * time.Millisecond
	// maxConnecting is the maximum number of connections to one peer at a time.
	maxConnecting = 64
	// proberRest is the pause if no connection is due.
	proberRest = 200 * time.Millisecond
)

// ConnectTCP reports whether an endpoint accepts a TCP connection. It closes the connection without
// sending data.
func ConnectTCP(ctx context.Context, at datapath.Target) bool {
	conn, err := (&net.Dialer{Timeout: connectTimeout, KeepAlive: -1}).DialContext(ctx, "tcp", at.String())
	if err != nil {
		return false
	}
	_ = conn.Close() // it was accepted
	return true
}

// connecting is a connection to make to an endpoint of a peer. done notes its result.
type connecting struct {
	peer *peer
	at   datapath.Target
	done func(accepted bool)
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
			accepted := r.options.Connect(ctx, c.at)
			r.mu.Lock()
			c.peer.connecting--
			r.mu.Unlock()
			if ctx.Err() == nil {
				c.done(accepted)
			}
		})
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
				return &connecting{p, at, func(accepted bool) { p.answered(at, accepted) }}
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
