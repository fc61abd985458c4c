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

	zones []index.Zone // longest name first, so that the first match is the longest
	watch interface{ View() *watch.View }
	fall  fall.F

	udpSize int // the largest reply over UDP, in bytes

	waited atomic.Bool // how long to wait for the first sync: ready_timeout

	clusterDomain string   // of the pods' search path, with the final dot
	searchTail    []string // the last part of each search path (AutoPath)

	owner plugin.Handler // of the cluster's own zone, and those of `alias`; nil if no plugin of this server block serves them
}

// Name implements plugin.Handler.
func (m *Multicluster) Name() string { return pluginName }

// Ready implements ready.Readiness. It returns true once every watch has synced, and at the latest
// after ready_timeout: this server can also serve other zones, which must not wait for an API
// server that cannot be read. It stays true during an outage, because the last known records are
// still served.
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
		return dns.RcodeNotImplemented, nil // a NOTIFY (RFC 1996) is for secondary servers
	}
	if q.Qtype == dns.TypeAXFR || q.Qtype == dns.TypeIXFR {
		return dns.RcodeRefused, nil // transfers come through the transfer plugin only
	}
	v := m.known(zone)
	if v == nil {
		// This comes before fallthrough: a name must not be forwarded because the plugin is not
		// ready.
		return unsynced(w, r, zone, name)
	}
	a := v.Index.Lookup(zone, q.Name, q.Qtype, m.maxSize(w, r))
	if a.Result == index.NameError {
		if parsed := zone.Parse(name); v.Unknown(parsed) || v.Unlisted(parsed) && !m.denies(zone) {
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

// known returns the View that answers questions in a zone, or nil if they cannot be answered yet.
func (m *Multicluster) known(zone *index.Zone) *watch.View {
	v := m.watch.View()
	if v == nil && m.denies(zone) {
		return noImports
	}
	return v
}

// denies reports whether names of imports that were not listed are denied, as without this plugin: in a
// zone of `alias`, after ready_timeout. Otherwise each name that a resolver completes with the cluster's
// domain would be SERVFAIL. Resolvers such as musl's stop at SERVFAIL, so names outside the cluster
// would not resolve.
func (m *Multicluster) denies(zone *index.Zone) bool { return zone.Alias && m.waited.Load() }

var noImports = watch.NewView(index.New(0), "")

// sizeOPT is the size of an OPT record without options, in bytes.
const sizeOPT = 11

// maxSize returns the largest size of the reply in bytes: what the client accepts, over UDP at most
// udpSize, less the OPT record that the server adds, with some of the options of the question.
// Records that do not fit are left out before, because the server would also set TC for additional
// addresses.
func (m *Multicluster) maxSize(w dns.ResponseWriter, r *dns.Msg) int {
	proto := (&request.Request{W: w}).Proto()
	opt := r.IsEdns0()
	if opt == nil {
		return int(edns.Size(proto, 0))
	}
	size := int(edns.Size(proto, opt.UDPSize()))
	if proto == "udp" {
		size = min(size, m.udpSize)
	}
	if len(opt.Option) == 0 {
		return size - sizeOPT
	}
	return size - sizeOfReply(opt)
}

// sizeOfReply returns the size of the OPT record of the reply. The server decides which options of the
// question it has: CoreDNS before 1.15 also returns some that nobody supports, such as cookies.
func sizeOfReply(opt *dns.OPT) int {
	question, reply := new(dns.Msg), new(dns.Msg)
	question.Extra = []dns.RR{dns.Copy(opt)}
	(&request.Request{Req: question}).SizeAndDo(reply)
	return dns.Len(reply.IsEdns0())
}

// ownersSOA returns the SOA record of a negative answer in a zone of `alias`: the record of the
// zone's own plugin, so that caches see one serial and one negative TTL, whichever plugin denies a
// name. If that plugin has no SOA record, ownersSOA returns this plugin's.
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

// unsynced answers a name that is not known yet. The server writes the SERVFAIL itself, so that no
// cache keeps it longer than necessary. unsynced returns no error, because *errors* would log one
// for each question, and the watch has already logged the failure.
//
// autopath needs an answer for a name that can be an import. Without one it continues with the next
// name of the path, and would end with an NXDOMAIN of a name outside the cluster. It passes a
// writer that only records. *cache* keeps that SERVFAIL for its usual 5 seconds. Other names cannot
// be imports, and another plugin answers the names of alias zones.
func unsynced(w dns.ResponseWriter, r *dns.Msg, zone *index.Zone, name string) (int, error) {
	recorder, ok := w.(*nonwriter.Writer)
	if !ok || zone.Alias || zone.Parse(name).Kind != index.KindService {
		return dns.RcodeServerFailure, nil
	}
	return dns.RcodeSuccess, recorder.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeServerFailure)) // this code tells the server that the reply is written
}

var rcode = [...]int{index.Success: dns.RcodeSuccess, index.NoData: dns.RcodeSuccess, index.NameError: dns.RcodeNameError}

// asked returns the question, its name in lower case, and the zone that contains it. The zone is
// nil if no zone of the plugin does.
func (m *Multicluster) asked(r *dns.Msg) (zone *index.Zone, q dns.Question, name string) {
	if len(r.Question) != 1 { // no server accepts such a message
		return nil, q, ""
	}
	q = r.Question[0]
	name = strings.ToLower(q.Name)
	return m.zone(name), q, name
}

// zone returns the longest zone that contains the name, which is in lower case, or nil.
func (m *Multicluster) zone(name string) *index.Zone {
	for i := range m.zones { // longest first
		if m.zones[i].Has(name) {
			return &m.zones[i]
		}
	}
	return nil
}
