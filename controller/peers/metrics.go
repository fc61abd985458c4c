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

// peerInfo has one series for each peer, and so has peerContact once the peer has answered.
var (
	peerInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "multicluster_peer_info",
		Help: "1, with the reason of the peer's condition, as on its Lease, and the version that its controller announces. Only the leader exports it.",
	}, []string{"peer", "reason", "version"})
	peerContact = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "multicluster_peer_last_contact_timestamp_seconds",
		Help: "When the API server of a peer last answered, in seconds since 1970. Only the leader exports it.",
	}, []string{"peer"})
)

// peerRefused has three series for each peer with limits.
var peerRefused = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "multicluster_peer_refused",
	Help: "What the limits on a peer's Secret refuse: names in other namespaces, endpoints in other networks, names beyond max-services, endpoints beyond max-endpoints. Only the leader exports it.",
}, []string{"peer", "limit"})

// peerPath has one series for each peer and verdict, peerEndpoints two for each peer, and peerAnswer
// one for each peer with an endpoint that has answered.
var (
	peerPath = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "multicluster_peer_data_path",
		Help: "1 for what TCP connections to the endpoints of a peer show: Proven, Unknown, Checking, Cut (only its API server is silent) or Dead, otherwise 0. Only the leader exports it.",
	}, []string{"peer", "verdict"})
	peerEndpoints = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "multicluster_peer_tested_endpoints",
		Help: "Endpoints of a peer that are tested by TCP connections, by whether the last connection was accepted. Only the leader exports it.",
	}, []string{"peer", "accepts"})
	peerAnswer = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "multicluster_peer_last_answer_timestamp_seconds",
		Help: "When an endpoint of a peer last accepted a TCP connection of this controller, in seconds since 1970. Only the leader exports it.",
	}, []string{"peer"})
)

// peerTokenExpiry and peerTokenIssued have one series for each peer whose token expires.
var (
	peerTokenExpiry = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "multicluster_token_expiry_timestamp_seconds",
		Help: "When the token for a peer expires, in seconds since 1970. No series for a token that never expires. Only the leader exports it.",
	}, []string{"peer"})
	peerTokenIssued = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "multicluster_token_issued_timestamp_seconds",
		Help: "When a token for a peer that expires was issued, in seconds since 1970. A token is renewed when a third of its life is left. Only the leader exports it.",
	}, []string{"peer"})
)

func init() {
	for _, metric := range ofPeers {
		metrics.Registry.MustRegister(metric)
	}
}

// ofPeers are the metrics with the label peer.
var ofPeers = []*prometheus.GaugeVec{peerConnected, peerInfo, peerContact, peerRefused, peerPath, peerEndpoints, peerAnswer, peerTokenExpiry, peerTokenIssued}

// forgetMetrics deletes the series of a peer.
func forgetMetrics(id string) {
	for _, metric := range ofPeers {
		metric.DeletePartialMatch(prometheus.Labels{"peer": id})
	}
}

// measure sets the metrics of the condition.
func (p *peer) measure() {
	connected := 0.0
	if p.condition.connected {
		connected = 1
	}
	peerConnected.WithLabelValues(p.id).Set(connected)
	if now := [2]string{p.condition.reason, p.version}; now != p.measured {
		peerInfo.DeleteLabelValues(p.id, p.measured[0], p.measured[1])
		peerInfo.WithLabelValues(p.id, now[0], now[1]).Set(1)
		p.measured = now
	}
	p.registry.mu.RLock()
	c := p.connection
	p.registry.mu.RUnlock()
	if c != nil {
		if at, answered := c.transport.lastAnswer(); answered {
			p.contact = at
		}
	}
	if p.contact.IsZero() { // since this process began
		p.contact = p.record.LastConnected.Time
	}
	if !p.contact.IsZero() {
		peerContact.WithLabelValues(p.id).Set(float64(p.contact.UnixMilli()) / 1000)
	}
}
