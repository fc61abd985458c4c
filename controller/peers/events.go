package peers

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/controller/datapath"
)

// Reasons of the events about the way to the endpoints of a peer.
var reasonsOfPath = map[datapath.Verdict]string{
	datapath.Proven: "DataPathProven", datapath.Unknown: "DataPathUnknown", datapath.Cut: "DataPathCut", datapath.Dead: "DataPathDead",
}

// announce emits an event and a log line for a new condition, except for Syncing.
func (p *peer) announce() {
	if p.condition.reason == Syncing || p.condition.reason == p.lease.reported {
		return
	}
	p.lease.reported = p.condition.reason
	kind := corev1.EventTypeWarning
	if p.condition.reason == Connected {
		kind = corev1.EventTypeNormal
	}
	p.emit(kind, p.condition.reason, p.condition.message)
}

// emit emits an event on the Secret of the peer, and a log line.
func (p *peer) emit(kind, reason, message string) {
	p.lease.told = p.registry.options.Now()
	p.registry.options.Log.Info("condition of a peer has changed", "peer", p.id, "reason", reason, "message", message)
	p.registry.options.Events.Eventf(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.registry.options.Namespace, Name: p.id, UID: p.secretUID()},
	}, nil, kind, reason, "Connect", "%s", message)
}

// announcePath emits an event for a new verdict. A peer without endpoints to test needs none.
func (p *peer) announcePath() {
	verdict := p.condition.path
	if reasonsOfPath[verdict] == "" || verdict == p.lease.reportedPath || verdict == datapath.Unknown && !p.condition.tested {
		return
	}
	p.lease.reportedPath = verdict
	kind := corev1.EventTypeWarning
	if verdict == datapath.Proven {
		kind = corev1.EventTypeNormal
	}
	p.emit(kind, reasonsOfPath[verdict], p.condition.pathMessage)
}

// announceToken emits an event when the renewal of the token begins to fail, and when it works again.
func (p *peer) announceToken() {
	failing := p.condition.tokenMessage != ""
	switch {
	case failing == p.lease.tokenFailed:
		return
	case failing:
		p.emit(corev1.EventTypeWarning, "TokenNotRenewed", "token: "+p.condition.tokenMessage)
	case p.condition.tokenExpiry != "":
		p.emit(corev1.EventTypeNormal, "TokenRenewed", "the token expires at "+p.condition.tokenExpiry)
	}
	p.lease.tokenFailed = failing
}
