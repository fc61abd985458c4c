package preference

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// kube-proxy uses an endpoint that is ready. If a Service has no such endpoint, it uses those that
// are serving and terminating. The endpoints of a cluster that is not chosen must be neither, and
// what they are must not be lost: the controllers of other clusters read the slices of this
// cluster, and a slice of a cluster that does not answer is the only copy.
//
//	                       ready  serving  terminating     on standby
//	ready                  true   any      any             false, true,  false
//	not ready              false  false    false           false, false, false
//	terminating            false  any      true            false, false, true
//
// From a terminating endpoint on standby, it cannot be seen whether it is serving. It then counts
// as serving: kube-proxy uses it only if no endpoint is ready.

// Disconnect changes the conditions of endpoints so that kube-proxy does not use them.
func Disconnect(endpoints []discoveryv1.Endpoint) {
	for i := range endpoints {
		c := &endpoints[i].Conditions
		ready, terminating := isReady(*c), c.Terminating != nil && *c.Terminating
		*c = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(ready), Terminating: new(terminating && !ready)}
	}
}

// Connect takes Disconnect back. Endpoints that are not on standby do not change.
func Connect(endpoints []discoveryv1.Endpoint) {
	for i := range endpoints {
		c := &endpoints[i].Conditions
		switch serving, terminating := c.Serving != nil && *c.Serving, c.Terminating != nil && *c.Terminating; {
		case isReady(*c):
		case terminating:
			c.Serving = new(true)
		default:
			c.Ready = new(serving)
		}
	}
}

// Ready returns the number of ready endpoints of a slice. Endpoints on standby count as they were
// before.
func Ready(slice *discoveryv1.EndpointSlice) (n int) {
	for _, e := range slice.Endpoints {
		c := e.Conditions
		serving, terminating := c.Serving != nil && *c.Serving, c.Terminating != nil && *c.Terminating
		if isReady(c) || OnStandby(slice) && serving && !terminating {
			n++
		}
	}
	return n
}

// OnStandby reports whether a slice has the endpoints of a cluster that is not chosen.
func OnStandby(slice *discoveryv1.EndpointSlice) bool { return slice.Labels[mcs.LabelStandby] != "" }

// isReady reports whether an endpoint is ready. An endpoint that does not say so is ready
// (EndpointConditions).
func isReady(c discoveryv1.EndpointConditions) bool { return c.Ready == nil || *c.Ready }
