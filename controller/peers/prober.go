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
	baselineRate = 30 // a second, while the API servers of the peers answer
	silentRate   = 68 // a second, to the endpoints of silent peers
	// A silent peer gets at most mostAsked connections a second, and fewest if many peers are silent.
	mostAsked, fewest = 16, 3
	connectTimeout    = 2 * time.Second
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

// probe connects to endpoints of the peers until ctx ends.
func (r *Registry) probe(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { r.connectTo(ctx, rate.NewLimiter(baselineRate, 1), false) })
	loops.Go(func() { r.connectTo(ctx, rate.NewLimiter(silentRate, 1), true) })
	loops.Wait()
}

// connectTo connects to endpoints of the peers that are silent, or of those that are not.
func (r *Registry) connectTo(ctx context.Context, limiter *rate.Limiter, silent bool) {
	var connecting sync.WaitGroup
	defer connecting.Wait()
	last := ""
	for limiter.Wait(ctx) == nil {
		p, at := r.nextTarget(last, silent)
		if p == nil {
			select {
			case <-ctx.Done():
			case <-time.After(proberRest):
			}
			continue
		}
		last = p.id
		connecting.Go(func() {
			accepted := r.options.Connect(ctx, at)
			if ctx.Err() == nil {
				p.answered(at, accepted)
			}
		})
	}
}

// nextTarget returns an endpoint to connect to, and its peer. The peers take turns.
func (r *Registry) nextTarget(last string, silent bool) (*peer, datapath.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id, p := range r.peers {
		if p.path.IsSilent() == silent {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { // those after the last come first
		if (a > last) != (b > last) {
			return -strings.Compare(a, b)
		}
		return strings.Compare(a, b)
	})
	sample := min(max(silentRate/max(len(ids), 1), fewest), mostAsked)
	for _, id := range ids {
		if at, due := r.peers[id].path.Due(r.options.Now(), sample); due {
			return r.peers[id], at
		}
	}
	return nil, datapath.Target{}
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
