package preference

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// kube-proxy uses an endpoint that is ready. If a Service has no such endpoint, it uses those that
// are serving and terminating (KEP-1669). The endpoints of a cluster that is not chosen must be
// neither, and what they are must not be lost: the controllers of other clusters read the slices of
// this cluster, and a slice of a cluster that does not answer is the only copy.
//
// A slice in reserve is different: kube-proxy uses its endpoints as soon as the Service has no ready
// endpoint, before any controller knows of it.
//
//	                       ready  serving  terminating     off                  in reserve
//	ready                  true   any      any             false, true,  false  false, true,  true
//	not ready              false  false    false           false, false, false  false, false, false
//	terminating            false  any      true            false, false, true   false, false, true
//
// From a terminating endpoint on standby, it cannot be seen whether it is serving. It then counts
// as serving: kube-proxy uses it only if no endpoint is ready.

// Standby is how a slice of a cluster that is not chosen is disconnected. It is the value of
// mcs.LabelStandby.
type Standby string

const (
	// Connected means that the cluster is chosen.
	Connected Standby = ""
	// Off means that kube-proxy does not use the endpoints.
	Off Standby = "true"
	// Reserve means that kube-proxy uses the endpoints if the Service has no ready endpoint.
	Reserve Standby = "reserve"
)

// StandbyOf returns how a slice is disconnected.
func StandbyOf(slice *discoveryv1.EndpointSlice) Standby {
	return Standby(slice.Labels[mcs.LabelStandby])
}

// Disconnect puts a connected slice on standby. It changes the conditions of the endpoints so that
// kube-proxy does not use them, or uses them only if it must.
func Disconnect(slice *discoveryv1.EndpointSlice, as Standby) {
	slice.Labels[mcs.LabelStandby] = string(as)
	for i := range slice.Endpoints {
		c := &slice.Endpoints[i].Conditions
		ready, terminating := isReady(*c), c.Terminating != nil && *c.Terminating
		*c = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(ready), Terminating: new(terminating && !ready || as == Reserve && ready)}
	}
}

// Connect takes Disconnect back. It leaves slices that are not on standby, and endpoints that
// Disconnect did not change, as they are.
func Connect(slice *discoveryv1.EndpointSlice) {
	was := StandbyOf(slice)
	if was == Connected {
		return
	}
	delete(slice.Labels, mcs.LabelStandby)
	for i := range slice.Endpoints {
		c := &slice.Endpoints[i].Conditions
		switch serving, terminating := c.Serving != nil && *c.Serving, c.Terminating != nil && *c.Terminating; {
		case isReady(*c):
		case was == Reserve && serving:
			c.Ready, c.Terminating = new(true), new(false)
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
	was := StandbyOf(slice)
	for _, e := range slice.Endpoints {
		c := e.Conditions
		serving, terminating := c.Serving != nil && *c.Serving, c.Terminating != nil && *c.Terminating
		if isReady(c) || was != Connected && serving && (was == Reserve || !terminating) {
			n++
		}
	}
	return n
}

// OnStandby reports whether a slice has the endpoints of a cluster that is not chosen.
func OnStandby(slice *discoveryv1.EndpointSlice) bool { return StandbyOf(slice) != Connected }

// isReady reports whether an endpoint is ready. An endpoint that does not say so is ready
// (EndpointConditions).
func isReady(c discoveryv1.EndpointConditions) bool { return c.Ready == nil || *c.Ready }
