package chain

import (
	"fmt"
	"net/netip"
	"slices"
)

// proven are the verdicts of a Lease that show that connections arrive.
var proven = []string{"Proven", "Cut"}

// traffic is the way to the endpoints. Only what the controller has tried is known of it.
func (w *walk) traffic() {
	if w.explained(rankSearch) {
		w.link("traffic", w.Here.Context, Skipped, w.leads())
		return
	}
	for _, e := range w.all() {
		if e.peer == nil || w.from(e.id) == 0 {
			continue
		}
		if slices.Contains(proven, e.peer.DataPath) {
			w.link("traffic", w.Here.Context, OK, "the endpoints of "+e.id+" accept connections from this cluster")
			continue
		}
		if e.side == nil || !e.side.Networks.OK() || !w.Here.Networks.OK() {
			w.link("traffic", w.Here.Context, Skipped, "nothing is known of connections to "+e.id)
			continue
		}
		if text := overlap(w.Here.Networks.Value, e.side.Networks.Value, w.addresses(e.id)); text != "" {
			w.link("traffic", w.Here.Context, Broken, text)
			p := problem("OverlappingNetworks", fmt.Sprintf("Pods of %s cannot reach pods of %s: %s.", w.Here.Context, e.side.Context, text))
			p.Advice = "Give the clusters different networks, or connect them by a gateway that translates addresses. Until then, the addresses mean something else in each cluster."
			w.add(rankTraffic, p)
			continue
		}
		w.link("traffic", w.Here.Context, Skipped, "no connection from the controller to endpoints of "+e.id+" is known: see docs/silent-clusters.md")
	}
}

// leads tells whether the name works although something is broken. What was read from a peer stays when
// the peer is lost, and other clusters can have endpoints, too.
func (w *walk) leads() string {
	own := slices.ContainsFunc(w.causes, func(r ranked) bool { return r.rank != rankExporter && r.rank <= rankSearch })
	switch {
	case own || w.Here.Slices.OK() && w.ready(w.Here.Slices.Value) == 0:
		return "the name does not lead to an endpoint"
	case w.doubtful:
		return "it is not known whether the name leads to an endpoint"
	}
	return "the name leads to endpoints, with what was read before"
}

// addresses are those of the endpoints that a cluster has exported.
func (w *walk) addresses(cluster string) []netip.Addr {
	var found []netip.Addr
	w.eachEndpoint(func(of, _ string, addresses []string, _ bool) {
		for _, text := range addresses {
			if ip, err := netip.ParseAddr(text); err == nil && of == cluster {
				found = append(found, ip)
			}
		}
	})
	return found
}

// overlap returns which networks of two clusters overlap where endpoints are, or "". Networks that have no
// endpoint prove nothing: a network plugin can use others than those of the nodes. Networks of Services can
// be the same in both: each cluster uses its own. A pod of the other cluster cannot be reached if this cluster
// uses its address for something else.
func overlap(here, there Networks, endpoints []netip.Addr) string {
	for _, pair := range []struct {
		mine, theirs     []netip.Prefix
		ofMine, ofTheirs string
	}{
		{here.Pods, there.Pods, "pods", "pods"},
		{here.Services, there.Pods, "Services", "pods"},
	} {
		for _, mine := range pair.mine {
			for _, theirs := range pair.theirs {
				if slices.ContainsFunc(endpoints, func(ip netip.Addr) bool { return mine.Contains(ip) && theirs.Contains(ip) }) {
					return fmt.Sprintf("the network %s of the %s here overlaps with %s of the %s there", mine, pair.ofMine, theirs, pair.ofTheirs)
				}
			}
		}
	}
	return ""
}
