package peers

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// peerConnected has one series for each peer. Their number is limited by the number of Secrets.
var peerConnected = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "multicluster_peer_connected",
	Help: "1 if the peer is connected and has the expected identity, otherwise 0. The peer's Lease contains the reason. Only the leader exports it.",
}, []string{"peer"})

// peerRefused has three series for each peer with limits.
var peerRefused = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "multicluster_peer_refused",
	Help: "What the limits on a peer's Secret refuse: names in other namespaces, endpoints in other networks, names beyond max-services. Only the leader exports it.",
}, []string{"peer", "limit"})

func init() { metrics.Registry.MustRegister(peerConnected, peerRefused) }
