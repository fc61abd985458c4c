package multicluster

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

// Multicluster answers questions for its zones from the newest Index.
type Multicluster struct {
	Next plugin.Handler

	names plugin.Zones
	zones []index.Zone // of the same names
	watch interface{ Index() *index.Index }
	fall  fall.F

	clusterDomain string   // of the pods' own search path, with the final dot
	searchTail    []string // what AutoPath's answers end in
}

// Name implements plugin.Handler.
func (m *Multicluster) Name() string { return pluginName }

// Ready implements ready.Readiness: true once every watch has synced. It stays so through an outage of the API server, as the last
// known records are served on.
func (m *Multicluster) Ready() bool { return m.watch.Index() != nil }

// ServeDNS implements plugin.Handler.
func (m *Multicluster) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	state := request.Request{W: w, Req: r}
	zone := m.zone(state.Name())
	if zone == nil || state.QClass() != dns.ClassINET {
		return plugin.NextOrFailure(pluginName, m.Next, ctx, w, r)
	}
	if t := state.QType(); t == dns.TypeAXFR || t == dns.TypeIXFR {
		return dns.RcodeRefused, nil // those come through the transfer plugin, or not at all
	}
	x := m.watch.Index()
	if x == nil {
		// Before fallthrough is thought of: a name must not leak upstream because we are not ready. The server writes the
		// SERVFAIL itself, so that no cache keeps it for longer than it is true.
		return dns.RcodeServerFailure, nil
	}
	a := x.Lookup(zone, state.QName(), state.QType())
	if a.Result == index.NameError && m.fall.Through(state.Name()) {
		return plugin.NextOrFailure(pluginName, m.Next, ctx, w, r)
	}
	reply := new(dns.Msg)
	reply.SetReply(r)
	reply.Authoritative = true
	reply.Rcode = rcode[a.Result]
	reply.Answer, reply.Ns, reply.Extra = a.Answer, a.Authority, a.Additional
	if err := w.WriteMsg(reply); err != nil {
		return dns.RcodeServerFailure, err
	}
	return reply.Rcode, nil
}

var rcode = [...]int{index.Success: dns.RcodeSuccess, index.NoData: dns.RcodeSuccess, index.NameError: dns.RcodeNameError}

// zone is the longest zone that the name, in lower case, falls in; nil where none.
func (m *Multicluster) zone(name string) *index.Zone {
	match := m.names.Matches(name)
	for i := range m.zones {
		if m.zones[i].Name == match {
			return &m.zones[i]
		}
	}
	return nil
}
