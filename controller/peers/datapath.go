package peers

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

const (
	// recheck is the pause between two evaluations of a peer that is silent or dead.
	recheck = 500 * time.Millisecond
	// remembered is the maximum number of slices to read of a peer that was not read since the start.
	remembered = 500
	// together is how far apart API servers fall silent that are lost together.
	together = 10 * time.Second
	// isolationGrace is how long the other peers have time to answer when the first one does.
	isolationGrace = 10 * time.Second
)

// reach is what connections to a peer's endpoints have shown until now.
type reach struct {
	wasAlive, wasDead bool      // the last evaluation had Observation.Connected, Observation.Dead
	retargeted        time.Time // when the endpoints to connect to were chosen
	targeted          *contents // of which they were chosen
	recalled          bool      // they were chosen from what this cluster has of the peer
	barred            bool      // when it could be read last, it was not trusted
	overdue           bool      // it could not be read for longer than Options.CutOffTimeout
	isolated          bool      // the last evaluation had Observation.Isolated
	isolatedAt        time.Time // when the peer was last dead together with all others
}

// observeLocked describes the peer now, and adds what is known of the way to its endpoints to the
// condition.
func (p *peer) observeLocked() Observation {
	p.registry.prober.mu.Lock()
	defer p.registry.prober.mu.Unlock()
	now := p.registry.options.Now()
	verdict := p.lookLocked(now)
	dead := p.isDeadLocked(verdict, now)
	alive := p.isAliveLocked(verdict, now)
	p.condition.path, p.condition.pathMessage, p.condition.tested = verdict, p.pathTextLocked(verdict), p.way.Counts().Targets > 0
	p.condition.beat = p.beat.value
	p.measureLocked(verdict)
	return Observation{
		Now: metav1.NewTime(now), Timeout: metav1.Duration{Duration: p.registry.options.Timeout},
		Connected: (p.condition.connected || alive) && !dead, WasConnected: p.wasAlive,
		Dead: dead, WasDead: p.wasDead, Isolated: p.isolated, Silent: p.way.IsSilent(), Known: p.contents != nil,
	}
}

// isAliveLocked reports whether endpoints keep a peer that cannot be read.
func (p *peer) isAliveLocked(verdict datapath.Verdict, now time.Time) bool {
	switch {
	case p.condition.connected:
		p.barred = false
	case distrusts(p.condition.reason):
		p.barred = true
	}
	limit := p.registry.options.CutOffTimeout
	p.overdue = limit > 0 && p.way.Silence(now) > limit
	// A check takes seconds only. Meanwhile the peer is what it was.
	alive := verdict == datapath.Cut || verdict == datapath.Checking && p.condition.unread() && p.wasAlive
	return alive && !p.overdue && !p.barred
}

// isDeadLocked reports whether the peer is dead. It also updates isolated.
func (p *peer) isDeadLocked(verdict datapath.Verdict, now time.Time) bool {
	dead := verdict == datapath.Dead || verdict == datapath.Returning
	if dead && p.isIsolatedLocked(now) {
		p.isolatedAt = now
	}
	// When the network is back, one peer answers first. The others get time to do so.
	p.isolated = dead && (p.way.IsRestored() || now.Sub(p.isolatedAt) < isolationGrace || p.isolated && verdict == datapath.Returning)
	return dead
}

// isIsolatedLocked reports whether no other peer shows that this cluster has a network: none answers, and none has
// answered for a while after this one fell silent. Peers that were silent before, and those whose silence is not noticed at
// once, show nothing.
func (p *peer) isIsolatedLocked(now time.Time) bool {
	for _, other := range p.registry.peers {
		switch silent := other.way.IsSilent(); {
		case other == p, !silent && !other.answersPingsLocked():
		case !silent, answered(other.condition.reason), other.way.Verdict(now) == datapath.Cut,
			p.way.Silence(now)-other.way.Silence(now) > together: // It has answered while this one was silent.
			return false
		}
	}
	return true
}

// answersPingsLocked reports whether the API server of a peer that is not silent has answered, and a
// silence would be noticed.
func (p *peer) answersPingsLocked() bool {
	return p.connection != nil && p.condition.reason != Syncing && p.connection.transport.pings.Load()
}

// measureLocked sets the metrics of the way to the endpoints.
func (p *peer) measureLocked(verdict datapath.Verdict) {
	for _, v := range datapath.Verdicts {
		is := 0.0
		if v == verdict {
			is = 1
		}
		peerPath.WithLabelValues(p.id, string(v)).Set(is)
	}
	c := p.way.Counts()
	peerEndpoints.WithLabelValues(p.id, "true").Set(float64(c.Accepting))
	peerEndpoints.WithLabelValues(p.id, "false").Set(float64(c.Targets - c.Accepting))
	if !c.Last.IsZero() {
		peerAnswer.WithLabelValues(p.id).Set(float64(c.Last.Unix()))
	}
}

// lookLocked updates what is known of the way to the peer's endpoints.
func (p *peer) lookLocked(now time.Time) datapath.Verdict {
	silent := p.condition.unread() || p.connection != nil && p.connection.suspected
	if p.registry.options.Connect != nil {
		p.retargetLocked(now, silent && !p.way.IsSilent())
	}
	if silent {
		p.way.Silent(now)
	} else if p.condition.reason != Syncing || !p.way.IsRestored() { // it has not answered yet
		p.way.Heard(now)
	}
	p.registry.prober.updateLocked(&p.way)
	if p.registry.options.Connect == nil {
		return datapath.Unknown
	}
	verdict := p.way.Verdict(now)
	switch { // It was silent for a moment only, or must not be used.
	case p.condition.unread() || verdict != datapath.Cut && verdict != datapath.Dead:
		return verdict
	case p.way.IsReturning():
		return datapath.Returning
	default:
		return datapath.Checking
	}
}

// retargetLocked chooses the endpoints to connect to, after a change of what the peer exports. When a silence begins, it
// does so at once: pods may just have been replaced. While the API server is silent and endpoints answer, others take
// the place of those that fail: pods end, and the peer cannot report new ones.
func (p *peer) retargetLocked(now time.Time, begins bool) {
	known, soon := p.way.Counts(), now.Sub(p.retargeted) < p.registry.options.ProbeInterval/3
	answers := p.way.IsSilent() && now.Sub(known.Last) < connectTimeout
	switch {
	case p.contents == nil, soon && !begins:
	case (p.retarget || p.targeted != p.contents) && (begins || p.condition.connected):
		p.followLocked(now, skipNone)
	case !p.condition.connected && answers && (p.retarget || known.Accepting < known.Targets):
		p.followLocked(now, p.way.Failed)
		p.retarget = true // those that fail now are connected to again when the peer can be read
	}
}

func (p *peer) followLocked(now time.Time, skip func(datapath.Target) bool) {
	p.way.Follow(datapath.Targets(p.servicesLocked(), skip))
	p.retargeted, p.retarget, p.targeted = now, false, p.contents
}

func skipNone(datapath.Target) bool { return false }

// servicesLocked returns the slices of each Service that the peer exports, within its limits.
func (p *peer) servicesLocked() iter.Seq[[]*discoveryv1.EndpointSlice] {
	return func(yield func([]*discoveryv1.EndpointSlice) bool) {
		for name := range p.contents.slices.byService {
			if m, ok := p.memberLocked(name); ok && !yield(m.Slices) {
				return
			}
		}
	}
}

// recallTargets chooses endpoints from what this cluster has of a silent peer that was not read
// since the start. Endpoints that answer show that only the API server of the peer is silent.
func (p *peer) recallTargets(ctx context.Context) {
	p.registry.mu.RLock()
	wanted := p.registry.options.Connect != nil && p.contents == nil && p.condition.unread() && !p.recalled
	p.registry.mu.RUnlock()
	if !wanted {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var list discoveryv1.EndpointSliceList
	if err := p.registry.options.Live.List(ctx, &list, client.Limit(remembered),
		client.MatchingLabels{mcsv1beta1.LabelSourceCluster: p.id, discoveryv1.LabelManagedBy: mcs.ControllerName}); err != nil {
		p.leaseTrouble(ctx, "cannot list the imported endpoints of a peer", err)
		return
	}
	p.registry.mu.Lock()
	defer p.registry.mu.Unlock()
	var services [][]*discoveryv1.EndpointSlice
	for i := range list.Items {
		preference.Connect(&list.Items[i])
		services = append(services, p.limits.within([]*discoveryv1.EndpointSlice{&list.Items[i]}))
	}
	p.registry.prober.mu.Lock()
	defer p.registry.prober.mu.Unlock()
	p.recalled = true
	p.way.Follow(datapath.Targets(slices.Values(services), skipNone))
}

// pathTextLocked describes what is known of the way to the endpoints, for the Lease and for events. A time that each
// connection changes is in a metric only: the Lease would be written with it.
func (p *peer) pathTextLocked(verdict datapath.Verdict) string {
	c := p.way.Counts()
	switch {
	case p.registry.options.Connect == nil:
		return "not tested, because of --probe-peers=false"
	case verdict == datapath.Unknown && c.Targets == 0:
		return "the peer exports no endpoint with a TCP port that can be tested"
	case verdict == datapath.Unknown:
		return fmt.Sprintf("none of %d tested endpoints accepts TCP connections from this cluster: check routes, firewalls and network policies between the pods of both clusters", c.Targets)
	case verdict == datapath.Returning:
		return "the API server answers again, and none of the tested endpoints does yet: endpoints return when one does"
	case verdict == datapath.Checking && c.Last.IsZero():
		return fmt.Sprintf("%d endpoints are being tested", c.Targets)
	}
	unread := "the API server is silent"
	if p.condition.reason != Unreachable {
		unread = "the peer is " + p.condition.reason
	}
	switch verdict {
	case datapath.Cut:
		return fmt.Sprintf("%s, and %d of %d tested endpoints answer: %s", unread, c.Accepting, c.Targets, p.stayTextLocked())
	case datapath.Dead:
		since := "the last one at " + c.Last.UTC().Format(time.RFC3339)
		if p.way.IsRestored() {
			return fmt.Sprintf("%s, and none of the %d tested endpoints has answered since this controller started, before which another one found the peer dead. "+
				"Endpoints are removed where this cluster has others, and stay where not", unread, c.Targets)
		}
		if p.isolated {
			return fmt.Sprintf("%s, none of the %d tested endpoints answers, %s, and no other peer answers: this cluster, or the node of its controller, can be the one without a network. "+
				"Endpoints are removed where this cluster has others, and stay where not", unread, c.Targets, since)
		}
		return fmt.Sprintf("%s, and none of the %d tested endpoints answers, %s: all endpoints are removed", unread, c.Targets, since)
	default:
		return fmt.Sprintf("%d of %d tested endpoints accept TCP connections", c.Accepting, c.Targets)
	}
}

// stayTextLocked describes how long the endpoints of a peer stay that is cut off.
func (p *peer) stayTextLocked() string {
	switch limit := p.registry.options.CutOffTimeout; {
	case limit == 0:
		return "all endpoints stay"
	case p.overdue:
		return fmt.Sprintf("--cut-off-timeout=%v has passed, and endpoints leave after --peer-timeout", limit)
	default:
		return fmt.Sprintf("all endpoints stay until --cut-off-timeout=%v has passed", limit)
	}
}
