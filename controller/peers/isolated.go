package peers

import (
	"time"

	"github.com/clusterset-dns/multicluster/controller/datapath"
)

const (
	// together is how far apart API servers fall silent that are lost together.
	together = 10 * time.Second
	// isolationGrace is how long the other peers have time to answer when the first one does.
	isolationGrace = 10 * time.Second
)

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
