package peers

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// peerConnected has a series for each peer: their number is that of Secrets that somebody made.
var peerConnected = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "multicluster_peer_connected",
	Help: "1 for a peer that is connected and whose identity is right, else 0. The peer's Lease says why. None in a process that is not the leader.",
}, []string{"peer"})

func init() { metrics.Registry.MustRegister(peerConnected) }
