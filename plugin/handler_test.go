package multicluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/pkg/edns"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/plugin/pkg/nonwriter"
	"github.com/coredns/coredns/plugin/test"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/plugin/index"
	"github.com/clusterset-dns/multicluster/plugin/watch"
)

// fixed is a watch that always has one View, or none.
type fixed struct{ v *watch.View }

func (f fixed) View() *watch.View { return f.v }

// next answers all that reaches it with an rcode that we never give.
var next = plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	return dns.RcodeYXDomain, w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeYXDomain))
})

func handler(x *index.Index, f fall.F) *Multicluster {
	if x == nil {
		return viewHandler(nil, f)
	}
	return viewHandler(watch.NewView(x, ""), f)
}

func viewHandler(v *watch.View, f fall.F) *Multicluster {
	m := &Multicluster{Next: next, watch: fixed{v}, fall: f, udpSize: defaultUDPSize}
	for _, name := range []string{"deep.clusterset.local.", "clusterset.local.", "cluster.local."} {
		m.zones = append(m.zones, index.Zone{Name: name, TTL: 5, NegativeTTL: 5, Alias: name == "cluster.local."})
	}
	return m
}

func oneImport() *index.Index {
	s := index.NewState()
	s.SetService(index.Service{Key: index.NewKey("default", "foo"), IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}.Entry())
	return index.New(0).With(s.Drain(), 1)
}

// ask asks over TCP, and gives the rcode that the client gets: the one written, or else the returned one, with which CoreDNS answers itself.
func ask(t *testing.T, m *Multicluster, class uint16, name string, qtype uint16) (int, *dns.Msg) {
	t.Helper()
	r := new(dns.Msg).SetQuestion(name, qtype)
	r.Question[0].Qclass = class
	w := dnstest.NewRecorder(&test.ResponseWriter{TCP: true})
	code, err := m.ServeDNS(t.Context(), w, r)
	if err != nil {
		t.Fatal(err)
	}
	if w.Msg != nil {
		return w.Msg.Rcode, w.Msg
	}
	return code, nil
}

func TestServeDNS(t *testing.T) {
	const foo, bar = "foo.default.svc.clusterset.local.", "bar.default.svc.clusterset.local."
	for name, test := range map[string]struct {
		synced bool
		fall   fall.F
		name   string
		qtype  uint16
		class  uint16
		want   int
	}{
		"a name that exists":                               {true, fall.Zero, foo, dns.TypeA, dns.ClassINET, dns.RcodeSuccess},
		"a name that does not":                             {true, fall.Zero, bar, dns.TypeA, dns.ClassINET, dns.RcodeNameError},
		"falls through where it is asked for":              {true, fall.Root, bar, dns.TypeA, dns.ClassINET, dns.RcodeYXDomain},
		"and not where only another zone does":             {true, fall.F{Zones: []string{"example.org."}}, bar, dns.TypeA, dns.ClassINET, dns.RcodeNameError},
		"no data never falls through":                      {true, fall.Root, foo, dns.TypeAAAA, dns.ClassINET, dns.RcodeSuccess},
		"a name that only looks so is not ours":            {true, fall.Zero, `foo\.clusterset.local.`, dns.TypeA, dns.ClassINET, dns.RcodeYXDomain},
		"nor is this":                                      {true, fall.Zero, `xclusterset.local.`, dns.TypeA, dns.ClassINET, dns.RcodeYXDomain},
		"another zone is not ours":                         {true, fall.Zero, "example.org.", dns.TypeA, dns.ClassINET, dns.RcodeYXDomain},
		"another class is not ours":                        {true, fall.Zero, foo, dns.TypeA, dns.ClassCHAOS, dns.RcodeYXDomain},
		"a zone below a zone is one of its own":            {true, fall.Zero, "foo.default.svc.deep.clusterset.local.", dns.TypeA, dns.ClassINET, dns.RcodeSuccess},
		"an import in another plugin's zone":               {true, fall.Zero, "foo.default.svc.cluster.local.", dns.TypeA, dns.ClassINET, dns.RcodeSuccess},
		"a name there that does not exist":                 {true, fall.Zero, "bar.default.svc.cluster.local.", dns.TypeA, dns.ClassINET, dns.RcodeNameError},
		"before the first sync":                            {false, fall.Zero, foo, dns.TypeA, dns.ClassINET, dns.RcodeServerFailure},
		"a headless name too":                              {false, fall.Zero, "h.c." + foo, dns.TypeA, dns.ClassINET, dns.RcodeServerFailure},
		"D36 nothing leaks upstream before the first sync": {false, fall.Root, foo, dns.TypeA, dns.ClassINET, dns.RcodeServerFailure},
		"other zones are served before the first sync":     {false, fall.Zero, "example.org.", dns.TypeA, dns.ClassINET, dns.RcodeYXDomain},
		"IXFR too": {true, fall.Root, "clusterset.local.", dns.TypeIXFR, dns.ClassINET, dns.RcodeRefused},
		"AXFR is refused unless the transfer plugin asks for it": {true, fall.Root, "clusterset.local.", dns.TypeAXFR, dns.ClassINET, dns.RcodeRefused},
	} {
		t.Run(name, func(t *testing.T) {
			var x *index.Index
			if test.synced {
				x = oneImport()
			}
			if got, _ := ask(t, handler(x, test.fall), test.class, test.name, test.qtype); got != test.want {
				t.Errorf("got %s, want %s", dns.RcodeToString[got], dns.RcodeToString[test.want])
			}
		})
	}
}

// CoreDNS lets NOTIFY through, and other opcodes where a plugin wants them. A NOTIFY was answered with the zone's SOA record.
func TestOtherOpcodesAreNotImplemented(t *testing.T) {
	for _, synced := range []*index.Index{nil, oneImport()} {
		for _, opcode := range []int{dns.OpcodeIQuery, dns.OpcodeStatus, dns.OpcodeNotify, dns.OpcodeUpdate} {
			for name, want := range map[string]int{"clusterset.local.": dns.RcodeNotImplemented, "foo.default.svc.cluster.local.": dns.RcodeNotImplemented, "example.org.": dns.RcodeYXDomain} {
				r := new(dns.Msg).SetQuestion(name, dns.TypeSOA)
				r.Opcode = opcode
				w := dnstest.NewRecorder(&test.ResponseWriter{})
				code, err := handler(synced, fall.Root).ServeDNS(t.Context(), w, r)
				if code != want || err != nil || (w.Msg == nil) != (want == dns.RcodeNotImplemented) {
					t.Errorf("%s of %s: %s, %v; wrote %v, want %s", dns.OpcodeToString[opcode], name, dns.RcodeToString[code], err, w.Msg, dns.RcodeToString[want])
				}
			}
		}
	}
}

// many is an index of one headless service with so many endpoints and one port.
func many(endpoints int) *index.Index {
	s := index.NewState()
	s.SetService(index.Service{Key: index.NewKey("shop", "database"), Type: index.Headless}.Entry())
	slice := index.Slice{SliceID: index.SliceID{Namespace: "shop", Name: "s"}, Service: "database", Cluster: "east", Ports: []index.Port{{Name: "postgres", Protocol: "tcp", Number: 5432}}}
	for i := range endpoints {
		slice.Endpoints = append(slice.Endpoints, index.Endpoint{Hostname: fmt.Sprint("db-", i), Addr: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})})
	}
	s.SetSlice(slice)
	return index.New(0).With(s.Drain(), 1)
}

// RFC 2181 section 9: TC is for records that are needed. Missing addresses of targets, which the
// client did not ask for, must not send it to TCP. The EDNS options of the client take space in the
// reply: CoreDNS returns some of them, which ones depends on its version.
func TestOnlyMissingAnswersAreTruncated(t *testing.T) {
	cookie := &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef0123456789abcdef"}
	nsid := &dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: strings.Repeat("00", 40)}
	edns.SetSupportedOption(dns.EDNS0NSID)
	for _, size := range []uint16{0, 512, 1232, 4096} {
		for _, options := range [][]dns.EDNS0{nil, {cookie}, {nsid, cookie}} {
			for endpoints := 1; endpoints <= 120; endpoints++ {
				r := new(dns.Msg).SetQuestion("_postgres._tcp.database.shop.svc.clusterset.local.", dns.TypeSRV)
				if size > 0 {
					r.SetEdns0(size, false).IsEdns0().Option = slices.Clone(options)
				}
				reply := served(t, many(endpoints), r, false)
				if reply.Truncated != (len(reply.Answer) < endpoints) {
					t.Fatalf("%d endpoints, buffer %d, options %v: truncated %v with %d records", endpoints, size, options, reply.Truncated, len(reply.Answer))
				}
			}
		}
	}
}

// A forged question of 61 bytes got 64 061: more than a thousand times what it cost.
func TestRepliesOverUDPHaveABound(t *testing.T) {
	x := many(4000)
	for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV, dns.TypeANY} {
		for _, size := range []uint16{512, 1232, 4096, dns.MaxMsgSize} {
			r := new(dns.Msg).SetQuestion("database.shop.svc.clusterset.local.", qtype).SetEdns0(size, false)
			udp, tcp := served(t, x, r, false), served(t, x, r, true)
			if udp.Len() > defaultUDPSize || !udp.Truncated || len(udp.Answer) == 0 || len(tcp.Answer) < 10*len(udp.Answer) {
				t.Errorf("%s, buffer %d: %d bytes over UDP, truncated %v; %d records over TCP", dns.TypeToString[qtype], size, udp.Len(), udp.Truncated, len(tcp.Answer))
			}
		}
	}
}

// served is the reply as the server sends it, after its own scrubbing.
func served(t *testing.T, x *index.Index, r *dns.Msg, tcp bool) *dns.Msg {
	t.Helper()
	w := dnstest.NewRecorder(&test.ResponseWriter{TCP: tcp})
	if _, err := handler(x, fall.Zero).ServeDNS(t.Context(), request.NewScrubWriter(r, w), r); err != nil {
		t.Fatal(err)
	}
	wire, err := w.Msg.Pack()
	if err != nil || len(wire) > (&request.Request{W: w, Req: r}).Size() {
		t.Fatalf("%v: %d bytes, %v", r, len(wire), err)
	}
	return w.Msg
}

// 4000 addresses were handed to the server, for it to cut them to seventy.
func TestTheServerHasNothingToCut(t *testing.T) {
	x := many(5000)
	for _, tcp := range []bool{false, true} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV, dns.TypeANY} {
			r := new(dns.Msg).SetQuestion("database.shop.svc.clusterset.local.", qtype).SetEdns0(1232, true)
			w := dnstest.NewRecorder(&test.ResponseWriter{TCP: tcp})
			if _, err := handler(x, fall.Zero).ServeDNS(t.Context(), w, r); err != nil {
				t.Fatal(err)
			}
			given, state := len(w.Msg.Answer), request.Request{W: &test.ResponseWriter{TCP: tcp}, Req: r}
			state.SizeAndDo(w.Msg)
			sent := len(state.Scrub(w.Msg).Answer)
			if given != sent || !w.Msg.Truncated || sent == 0 {
				t.Errorf("%s, TCP %v: the server was given %d records and sent %d; truncated: %v", dns.TypeToString[qtype], tcp, given, sent, w.Msg.Truncated)
			}
		}
	}
}

// A name denied by us and one denied by the zone's own plugin had SOA records with other serials and minimum TTLs.
func TestDenialsInAnAliasZoneHaveItsOwnSOA(t *testing.T) {
	const record = "Cluster.local. 30 IN SOA ns.dns.Cluster.local. hostmaster.Cluster.local. 77 7200 1800 86400 30"
	own, err := dns.NewRR(record)
	if err != nil {
		t.Fatal(err)
	}
	asked := ""
	gives := func(rrs ...dns.RR) plugin.Handler {
		return plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			asked = r.Question[0].String()
			m := new(dns.Msg).SetReply(r)
			m.Answer = rrs
			return dns.RcodeSuccess, w.WriteMsg(m)
		})
	}
	fails := plugin.HandlerFunc(func(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) { return dns.RcodeServerFailure, nil })
	for name, test := range map[string]struct {
		owner  plugin.Handler
		name   string
		serial uint32
	}{
		"a name that does not exist":       {gives(own), "bar.default.svc.Cluster.local.", 77},
		"a type that a name does not have": {gives(own), "default.svc.Cluster.local.", 77},
		"our own zone keeps ours":          {gives(own), "bar.default.svc.clusterset.local.", 1},
		"no plugin of that zone":           {nil, "bar.default.svc.cluster.local.", 1},
		"a plugin that has no SOA record":  {gives(), "bar.default.svc.cluster.local.", 1},
		"a plugin that answers nothing":    {fails, "bar.default.svc.cluster.local.", 1},
		"a plugin that has something else": {gives(&dns.A{Hdr: dns.RR_Header{Rrtype: dns.TypeA}}), "bar.default.svc.cluster.local.", 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := handler(oneImport(), fall.Zero)
			m.owner = test.owner
			asked = ""
			_, reply := ask(t, m, dns.ClassINET, test.name, dns.TypeTXT)
			if len(reply.Ns) != 1 || reply.Ns[0].(*dns.SOA).Serial != test.serial {
				t.Errorf("denied by %v, want the serial %d", reply.Ns, test.serial)
			}
			if test.serial == 77 && asked != ";Cluster.local.\tIN\t SOA" {
				t.Errorf("the zone's plugin was asked %q", asked)
			}
		})
	}
}

func TestRepliesAreAuthoritativeAndEchoTheQuestion(t *testing.T) {
	const mixed = "FOO.default.svc.ClusterSet.local."
	_, m := ask(t, handler(oneImport(), fall.Zero), dns.ClassINET, mixed, dns.TypeA)
	if !m.Authoritative || !m.Response || m.Question[0].Name != mixed || m.Answer[0].Header().Name != mixed {
		t.Errorf("got %v", m)
	}
}

func TestBeforeTheFirstSyncNothingIsWrittenThatACacheCouldKeep(t *testing.T) {
	if _, m := ask(t, handler(nil, fall.Zero), dns.ClassINET, "foo.default.svc.clusterset.local.", dns.TypeA); m != nil {
		t.Errorf("wrote %v; want the server to answer", m)
	}
}

// *errors* logs a line for each error. autopath goes on to the next name of its path unless it gets an answer (seen with CoreDNS
// 1.15.0): an import's name would end in the world outside. The names of the outside that it tries in our zone, or in the cluster's, are
// no such names.
func TestBeforeTheFirstSyncOnlyAutopathGetsAnAnswer(t *testing.T) {
	for name, want := range map[string]bool{
		"foo.default.svc.clusterset.local.": true, "db-0.c.db.data.svc.clusterset.local.": true,
		"www.example.org.clusterset.local.": false, "clusterset.local.": false, "www.example.org.default.svc.cluster.local.": false,
	} {
		for _, autopath := range []bool{false, true} {
			recorder := nonwriter.New(&test.ResponseWriter{})
			var w dns.ResponseWriter = dnstest.NewRecorder(recorder)
			if autopath {
				w = recorder
			}
			code, err := handler(nil, fall.Zero).ServeDNS(t.Context(), w, new(dns.Msg).SetQuestion(name, dns.TypeA))
			if err != nil {
				t.Errorf("%s: %v, which is a line in the log for each question", name, err)
			}
			written := recorder.Msg != nil && recorder.Msg.Rcode == dns.RcodeServerFailure && plugin.ClientWrite(code)
			if written != (want && autopath) || !written && code != dns.RcodeServerFailure {
				t.Errorf("%s, asked by autopath: %v: written: %v, code %s", name, autopath, written, dns.RcodeToString[code])
			}
		}
	}
}

// Imports do not wait for EndpointSlices. What is not known yet is SERVFAIL, and nothing else is.
func TestBeforeEndpointSlicesHaveSyncedOnlyHeadlessNamesFail(t *testing.T) {
	m := viewHandler(watch.NewView(oneImport(), "", index.NewKey("data", "db")), fall.Root)
	for name, want := range map[string]int{
		"foo.default.svc.clusterset.local.":      dns.RcodeSuccess,
		"bar.default.svc.clusterset.local.":      dns.RcodeYXDomain, // by the next plugin
		"bar.data.svc.clusterset.local.":         dns.RcodeYXDomain,
		"clusterset.local.":                      dns.RcodeSuccess,
		"dns-version.clusterset.local.":          dns.RcodeSuccess,
		"db.data.svc.clusterset.local.":          dns.RcodeServerFailure,
		"DB.data.svc.clusterset.local.":          dns.RcodeServerFailure,
		"db-0.c1.db.data.svc.clusterset.local.":  dns.RcodeServerFailure,
		"_pg._tcp.db.data.svc.clusterset.local.": dns.RcodeServerFailure,
		"data.svc.clusterset.local.":             dns.RcodeServerFailure,
		"db.data.svc.cluster.local.":             dns.RcodeServerFailure,
		"www.example.org.clusterset.local.":      dns.RcodeYXDomain,
		"default.svc.clusterset.local.":          dns.RcodeSuccess,
		"svc.clusterset.local.":                  dns.RcodeSuccess,
	} {
		if got, _ := ask(t, m, dns.ClassINET, name, dns.TypeA); got != want {
			t.Errorf("%s: %s, want %s", name, dns.RcodeToString[got], dns.RcodeToString[want])
		}
	}
	if m.Ready() {
		t.Error("ready before every resource has synced")
	}
	if _, err := m.Transfer("clusterset.local.", 0); !errors.Is(err, errUnsynced) {
		t.Errorf("a transfer: %v, want none of a part of the zone", err)
	}
}

// A namespace whose ServiceImports cannot be listed costs no name of another one. After ready_timeout it also costs no name that a
// resolver completes with the cluster's domain.
func TestANamespaceThatIsNotListedIsUnknown(t *testing.T) {
	m := viewHandler(watch.NewView(oneImport(), "shop"), fall.Root)
	for _, waited := range []bool{false, true} {
		m.waited.Store(waited)
		for name, want := range map[string]int{
			"foo.default.svc.clusterset.local.":          dns.RcodeSuccess,
			"bar.default.svc.clusterset.local.":          dns.RcodeYXDomain, // by the next plugin
			"www.example.org.svc.clusterset.local.":      dns.RcodeYXDomain,
			"clusterset.local.":                          dns.RcodeSuccess,
			"shop.svc.clusterset.local.":                 dns.RcodeServerFailure,
			"foo.shop.svc.clusterset.local.":             dns.RcodeServerFailure,
			"a.c1.foo.SHOP.svc.clusterset.local.":        dns.RcodeServerFailure,
			"www.example.org.shop.svc.clusterset.local.": dns.RcodeServerFailure,
			"www.example.org.shop.svc.cluster.local.":    map[bool]int{false: dns.RcodeServerFailure, true: dns.RcodeYXDomain}[waited],
		} {
			if got, _ := ask(t, m, dns.ClassINET, name, dns.TypeA); got != want {
				t.Errorf("%s: %s, want %s; ready_timeout has passed: %v", name, dns.RcodeToString[got], dns.RcodeToString[want], waited)
			}
		}
		if m.Ready() != waited {
			t.Errorf("ready: %v", m.Ready())
		}
	}
	if _, err := m.Transfer("clusterset.local.", 0); !errors.Is(err, errUnsynced) {
		t.Errorf("a transfer: %v, want none of a part of the zone", err)
	}
}

// Four: the message, its question, the records and the list of them.
func TestAllocations(t *testing.T) {
	m, r := handler(oneImport(), fall.Zero), new(dns.Msg).SetQuestion("foo.default.svc.clusterset.local.", dns.TypeA)
	var w dns.ResponseWriter = discard{}
	allocations := testing.AllocsPerRun(100, func() {
		if _, err := m.ServeDNS(t.Context(), w, r); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 4 {
		t.Errorf("%v allocations, want 4", allocations)
	}
}

type discard struct{ dns.ResponseWriter }

func (discard) WriteMsg(*dns.Msg) error { return nil }

func (discard) RemoteAddr() net.Addr { return client }

var client = &net.UDPAddr{IP: net.IPv4(10, 240, 0, 1), Port: 40212}

func TestReadyOnceSynced(t *testing.T) {
	if handler(nil, fall.Zero).Ready() {
		t.Error("ready before the first sync")
	}
	if !handler(oneImport(), fall.Zero).Ready() {
		t.Error("not ready after it")
	}
}

func TestServerAddresses(t *testing.T) {
	for name, test := range map[string]struct {
		port  string
		hosts []string
		want  []netip.Addr
	}{
		"those that it is bound to":     {"53", []string{"10.0.0.53", "127.0.0.1"}, []netip.Addr{netip.MustParseAddr("10.0.0.53")}},
		"loopback if there is no other": {"53", []string{"127.0.0.1", "::1"}, []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}},
		"not link-local ones":           {"53", []string{"fe80::1%eth0", "fd00::53"}, []netip.Addr{netip.MustParseAddr("fd00::53")}},
		"and not hundreds of them": {"53", []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8", "10.0.0.9"},
			[]netip.Addr{{}, {}, {}, {}, {}, {}, {}, {}}},
		"none on a port that NS records cannot name": {"1053", []string{"10.0.0.53"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := serverAddrs(&dnsserver.Config{Port: test.port, ListenHosts: test.hosts})
			if len(got) != len(test.want) {
				t.Fatalf("got %v, want %v", got, test.want)
			}
			for i := range got {
				if test.want[i].IsValid() && got[i] != test.want[i] {
					t.Errorf("got %v, want %v", got, test.want)
				}
			}
		})
	}
	if len(serverAddrs(&dnsserver.Config{Port: "53", ListenHosts: []string{""}})) == 0 {
		t.Error("a server bound to every address has none")
	}
}

// With hostNetwork and kube-proxy's IPVS mode, each ClusterIP of the cluster was an address of the zone's NS.
func TestAddressesOfOthersAreNotTheServers(t *testing.T) {
	for _, test := range []struct {
		i    net.Interface
		want bool
	}{
		{net.Interface{Name: "eth0", Flags: net.FlagUp | net.FlagBroadcast}, true},
		{net.Interface{Name: "lo", Flags: net.FlagUp | net.FlagLoopback}, true},
		{net.Interface{Name: "kube-ipvs0", Flags: net.FlagBroadcast}, false},
		{net.Interface{Name: "kube-ipvs0", Flags: net.FlagBroadcast | net.FlagUp}, false},
		{net.Interface{Name: "eth1", Flags: net.FlagBroadcast}, false},
	} {
		if got := isOwn(test.i); got != test.want {
			t.Errorf("%s %s: %v, want %v", test.i.Name, test.i.Flags, got, test.want)
		}
	}
}
