package simulated

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// BeatEvery is the time between two heartbeats of a controller.
const BeatEvery = 30 * time.Second

// Beat writes the heartbeats of the controllers of all peers until ctx ends or a write fails: one of each peer in each interval, evenly
// spread, as controllers that were started at different times do. Without heartbeats, a peer counts as one with an older controller.
func Beat(ctx context.Context, servers []*Server, every time.Duration) error {
	tick := time.NewTicker(every / time.Duration(max(len(servers), 1)))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			if err := servers[i%len(servers)].Beat(now); err != nil {
				return err
			}
		}
	}
}

// Beat writes one heartbeat.
func (s *Server) Beat(now time.Time) error {
	return Edit(s, "", SystemNamespace, func(n *corev1.Namespace) {
		n.Annotations[mcs.AnnotationHeartbeat] = now.UTC().Format(time.RFC3339)
	})
}
