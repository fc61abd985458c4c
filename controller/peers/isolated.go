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

// isIsolatedLocked reports whether all peers with endpoints that have answered fell silent together
// with this one, and none answers. Peers that were silent before, and those whose silence is not
// noticed at once, show nothing. With a single peer, nothing else can show on which side the fault is.
func (p *peer) isIsolatedLocked(now time.Time) bool {
	if len(p.registry.peers) == 1 {
		return true
	}
	others := 0
	for _, other := range p.registry.peers {
		apart := other.path.Silence(now) - p.path.Silence(now)
		switch silent := other.path.IsSilent(); {
		case other == p, !silent && !other.answersPingsLocked():
		case !silent, answered(other.condition.reason), other.path.Verdict(now) == datapath.Cut:
			return false
		case other.path.Counts().Last.IsZero():
		case apart.Abs() <= together:
			others++
		}
	}
	return others > 0
}

// answersPingsLocked reports whether the API server of a peer that is not silent has answered, and a
// silence would be noticed.
func (p *peer) answersPingsLocked() bool {
	return p.connection != nil && p.condition.reason != Syncing && p.connection.transport.pings.Load()
}
