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

// announce emits an event and a log line for a new reason, except for Syncing, and for a new verdict, which a peer without
// endpoints to test does not need. It also does so when the renewal of the token begins to fail, and when it works again.
func (p *peer) announce() {
	is, told := &p.condition, &p.lease
	if is.reason != Syncing && is.reason != told.reported {
		told.reported = is.reason
		p.emit(is.reason == Connected, is.reason, is.message)
	}
	if reason := reasonsOfPath[is.path]; reason != "" && is.path != told.reportedPath && (is.path != datapath.Unknown || is.tested) {
		told.reportedPath = is.path
		p.emit(is.path == datapath.Proven, reason, is.pathMessage)
	}
	switch failing := is.tokenMessage != ""; {
	case failing == told.tokenFailed:
	case failing:
		p.emit(false, "TokenNotRenewed", "token: "+is.tokenMessage)
	case is.tokenExpiry != "":
		p.emit(true, "TokenRenewed", "the token expires at "+is.tokenExpiry)
	}
	told.tokenFailed = is.tokenMessage != ""
}

// emit emits an event on the Secret of the peer, and a log line.
func (p *peer) emit(good bool, reason, message string) {
	kind := corev1.EventTypeWarning
	if good {
		kind = corev1.EventTypeNormal
	}
	p.lease.told = p.registry.options.Now()
	p.registry.options.Log.Info("condition of a peer has changed", "peer", p.id, "reason", reason, "message", message)
	p.registry.options.Events.Eventf(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.registry.options.Namespace, Name: p.id, UID: p.secretUID()},
	}, nil, kind, reason, "Connect", "%s", message)
}
