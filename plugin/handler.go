package multicluster

import (
	"context"
	"strings"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

// Multicluster answers questions for its zones from the newest Index.
type Multicluster struct {
	Next plugin.Handler

	zones []index.Zone // the longest name first, so that the first that has a name is the one
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
	zone, q, name := m.asked(r)
	if zone == nil || q.Qclass != dns.ClassINET {
		return plugin.NextOrFailure(pluginName, m.Next, ctx, w, r)
	}
	if q.Qtype == dns.TypeAXFR || q.Qtype == dns.TypeIXFR {
		return dns.RcodeRefused, nil // those come through the transfer plugin, or not at all
	}
	x := m.watch.Index()
	if x == nil {
		// Before fallthrough is thought of: a name must not leak upstream because we are not ready. The server writes the
		// SERVFAIL itself, so that no cache keeps it for longer than it is true.
		return dns.RcodeServerFailure, unsynced(zone, name)
	}
	a := x.Lookup(zone, q.Name, q.Qtype)
	if a.Result == index.NameError && m.fall.Through(name) {
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

// unsynced is the error for a name that could be an import's: autopath goes on to the next name of the path unless there is one, and
// would end with an NXDOMAIN of the world outside. Other names are none of ours for sure, and guests' answers are another plugin's.
func unsynced(zone *index.Zone, name string) error {
	if zone.Guest || zone.Parse(name).Form != index.FormService {
		return nil
	}
	return errUnsynced
}

var rcode = [...]int{index.Success: dns.RcodeSuccess, index.NoData: dns.RcodeSuccess, index.NameError: dns.RcodeNameError}

// asked is the question, its name in lower case, and the zone that it falls in, nil where that is none of ours.
func (m *Multicluster) asked(r *dns.Msg) (zone *index.Zone, q dns.Question, name string) {
	if len(r.Question) != 1 { // which no server lets through
		return nil, q, ""
	}
	q = r.Question[0]
	name = strings.ToLower(q.Name)
	return m.zone(name), q, name
}

// zone is the longest zone that the name, in lower case, falls in; nil where none.
func (m *Multicluster) zone(name string) *index.Zone {
	for i := range m.zones { // the longest first
		if m.zones[i].Has(name) {
			return &m.zones[i]
		}
	}
	return nil
}
