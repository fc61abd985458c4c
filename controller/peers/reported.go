package peers

import coordinationv1 "k8s.io/api/coordination/v1"

// Reported returns what the Lease of a peer contains: whether the peer is connected, and the reason.
func Reported(l *coordinationv1.Lease) (connected bool, reason string) {
	return l.Labels[labelConnected] == conditionTrue, l.Labels[labelReason]
}
