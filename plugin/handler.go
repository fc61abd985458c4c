package multicluster

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/edns"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/plugin/pkg/nonwriter"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/plugin/index"
	"github.com/clusterset-dns/multicluster/plugin/watch"
)

// Multicluster answers questions for its zones from the newest Index.
type Multicluster struct {
	Next plugin.Handler

	zones []index.Zone // the longest name first, so that the first that has a name is the one
	watch interface{ View() *watch.View }
	fall  fall.F

	waited atomic.Bool // for the first sync, as long as ready_timeout

	clusterDomain string   // of the pods' own search path, with the final dot
	searchTail    []string // what AutoPath's answers end in

	owner plugin.Handler // of the zones of `alias`; nil where they are none of this server block's
}

// Name implements plugin.Handler.
func (m *Multicluster) Name() string { return pluginName }

// Ready implements ready.Readiness: true once every watch has synced, and at the latest after ready_timeout: this server may answer
// other zones, which must not wait for an API server that cannot be read. It stays so through an outage, as the last known records are
// served on.
func (m *Multicluster) Ready() bool {
	v := m.watch.View()
	return v != nil && v.Whole() || m.waited.Load()
}

// ServeDNS implements plugin.Handler.
func (m *Multicluster) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	zone, q, name := m.asked(r)
	if zone == nil || q.Qclass != dns.ClassINET {
		return plugin.NextOrFailure(pluginName, m.Next, ctx, w, r)
	}
	if r.Opcode != dns.OpcodeQuery {
		return dns.RcodeNotImplemented, nil // a NOTIFY (RFC 1996) is for secondaries, which we are not
	}
	if q.Qtype == dns.TypeAXFR || q.Qtype == dns.TypeIXFR {
		return dns.RcodeRefused, nil // those come through the transfer plugin, or not at all
	}
	v := m.known(zone)
	if v == nil {
		// Before fallthrough is thought of: a name must not leak upstream because we are not ready.
		return unsynced(w, r, zone, name)
	}
	a := v.Index.LookupIn(zone, q.Name, q.Qtype, maxSize(w, r))
	if a.Result == index.NameError {
		if !v.Whole() && v.Unknown(zone.Parse(name)) {
			return unsynced(w, r, zone, name)
		}
		if m.fall.Through(name) {
			return plugin.NextOrFailure(pluginName, m.Next, ctx, w, r)
		}
	}
	reply := new(dns.Msg)
	reply.SetReply(r)
	reply.Authoritative, reply.Truncated = true, a.Truncated
	reply.Rcode = rcode[a.Result]
	reply.Answer, reply.Ns, reply.Extra = a.Answer, a.Authority, a.Additional
	if zone.Alias && len(a.Authority) > 0 {
		reply.Ns = m.ownersSOA(ctx, w, a.Authority)
	}
	if err := w.WriteMsg(reply); err != nil {
		return dns.RcodeServerFailure, err
	}
	return reply.Rcode, nil
}

// known is what questions in a zone are answered from; nil where they cannot be answered yet. In a zone of `alias` whose imports have been
// waited for long enough, unknown names are denied, as they would be without us. Else each name that a resolver completes by the cluster's
// domain would be SERVFAIL, and resolvers such as musl's stop at that: names outside the cluster would not resolve, because of imports.
func (m *Multicluster) known(zone *index.Zone) *watch.View {
	v := m.watch.View()
	if v == nil && zone.Alias && m.waited.Load() {
		return noImports
	}
	return v
}

var noImports = watch.NewView(index.New(0))

// sizeOPT is an OPT record without options.
const sizeOPT = 11

// maxSize is how many bytes the reply can have: what the client takes, less the OPT record. The server adds that one, from the question's own
// with the options that it supports. What it would cut off is left out before: the server sets TC for addresses that nobody needs, too.
func maxSize(w dns.ResponseWriter, r *dns.Msg) int {
	proto := (&request.Request{W: w}).Proto()
	opt := r.IsEdns0()
	if opt == nil {
		return int(edns.Size(proto, 0))
	}
	size := int(edns.Size(proto, opt.UDPSize())) - sizeOPT
	for _, option := range opt.Option {
		if edns.SupportedOption(option.Option()) {
			size -= dns.Len(&dns.OPT{Option: []dns.EDNS0{option}}) - sizeOPT
		}
	}
	return size
}

// ownersSOA is the SOA record that denies a name in a zone of `alias`: that of the zone's own plugin, so that caches see one serial and one
// lifetime of denials, whichever plugin denies a name. It is ours where the zone's own plugin has none to give.
func (m *Multicluster) ownersSOA(ctx context.Context, w dns.ResponseWriter, ours []dns.RR) []dns.RR {
	if m.owner == nil {
		return ours
	}
	answer := nonwriter.New(w)
	question := new(dns.Msg).SetQuestion(ours[0].Header().Name, dns.TypeSOA)
	if _, err := m.owner.ServeDNS(ctx, answer, question); err != nil || answer.Msg == nil {
		return ours
	}
	if soa := answer.Msg.Answer; len(soa) == 1 && soa[0].Header().Rrtype == dns.TypeSOA {
		return soa
	}
	return ours
}

// unsynced answers a name that is not known yet. The server writes the SERVFAIL itself, so that no cache keeps it for longer than it is
// true. There is no error, as *errors* would log one for each question: the watch has logged what fails.
//
// autopath needs an answer for a name that could be an import's: else it goes on to the next name of the path, and would end with an
// NXDOMAIN of the world outside. It passes a writer that only records; *cache* keeps that SERVFAIL for its usual 5 seconds. Other names
// are none of ours for sure, and guests' answers are another plugin's.
func unsynced(w dns.ResponseWriter, r *dns.Msg, zone *index.Zone, name string) (int, error) {
	recorder, ok := w.(*nonwriter.Writer)
	if !ok || zone.Alias || zone.Parse(name).Kind != index.KindService {
		return dns.RcodeServerFailure, nil
	}
	return dns.RcodeSuccess, recorder.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeServerFailure)) // the code says that it is written
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
