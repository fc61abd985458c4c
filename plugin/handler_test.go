package multicluster

import (
	"context"
	"net/netip"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

// fixed is a watch that always has one Index, or none.
type fixed struct{ x *index.Index }

func (f fixed) Index() *index.Index { return f.x }

// next answers all that reaches it with an rcode that we never give.
var next = plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	return dns.RcodeYXDomain, w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeYXDomain))
})

func handler(x *index.Index, f fall.F) *Multicluster {
	names := plugin.Zones{"clusterset.local.", "deep.clusterset.local."}
	m := &Multicluster{Next: next, watch: fixed{x}, fall: f, names: names}
	for _, name := range names {
		m.zones = append(m.zones, index.Zone{Name: name, TTL: 5, NegativeTTL: 5})
	}
	return m
}

func oneImport() *index.Index {
	s := index.NewState()
	s.SetService(index.Service{Key: index.Key{Namespace: "default", Name: "foo"}, IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}})
	return index.New(0).With(s.Drain(), 1)
}

// ask gives the rcode that the client gets: the one written, or else the returned one, with which CoreDNS answers itself.
func ask(t *testing.T, m *Multicluster, class uint16, name string, qtype uint16) (int, *dns.Msg) {
	t.Helper()
	r := new(dns.Msg).SetQuestion(name, qtype)
	r.Question[0].Qclass = class
	w := dnstest.NewRecorder(&test.ResponseWriter{})
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
		"a name that exists":                                     {true, fall.Zero, foo, dns.TypeA, dns.ClassINET, dns.RcodeSuccess},
		"a name that does not":                                   {true, fall.Zero, bar, dns.TypeA, dns.ClassINET, dns.RcodeNameError},
		"falls through where it is asked for":                    {true, fall.Root, bar, dns.TypeA, dns.ClassINET, dns.RcodeYXDomain},
		"and not where only another zone does":                   {true, fall.F{Zones: []string{"example.org."}}, bar, dns.TypeA, dns.ClassINET, dns.RcodeNameError},
		"no data never falls through":                            {true, fall.Root, foo, dns.TypeAAAA, dns.ClassINET, dns.RcodeSuccess},
		"another zone is not ours":                               {true, fall.Zero, "example.org.", dns.TypeA, dns.ClassINET, dns.RcodeYXDomain},
		"another class is not ours":                              {true, fall.Zero, foo, dns.TypeA, dns.ClassCHAOS, dns.RcodeYXDomain},
		"a zone below a zone is one of its own":                  {true, fall.Zero, "foo.default.svc.deep.clusterset.local.", dns.TypeA, dns.ClassINET, dns.RcodeSuccess},
		"before the first sync":                                  {false, fall.Zero, foo, dns.TypeA, dns.ClassINET, dns.RcodeServerFailure},
		"B2 a headless name too":                                 {false, fall.Zero, "h.c." + foo, dns.TypeA, dns.ClassINET, dns.RcodeServerFailure},
		"B10 D36 nothing leaks upstream before the first sync":   {false, fall.Root, foo, dns.TypeA, dns.ClassINET, dns.RcodeServerFailure},
		"other zones are served before the first sync":           {false, fall.Zero, "example.org.", dns.TypeA, dns.ClassINET, dns.RcodeYXDomain},
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

func TestReadyOnceSynced(t *testing.T) { // B3
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
		"those that it is bound to":                      {"53", []string{"10.0.0.53", "127.0.0.1"}, []netip.Addr{netip.MustParseAddr("10.0.0.53")}},
		"loopback if there is no other":                  {"53", []string{"127.0.0.1", "::1"}, []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}},
		"not link-local ones":                            {"53", []string{"fe80::1%eth0", "fd00::53"}, []netip.Addr{netip.MustParseAddr("fd00::53")}},
		"none on a port that nobody who follows NS asks": {"1053", []string{"10.0.0.53"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := serverAddrs(&dnsserver.Config{Port: test.port, ListenHosts: test.hosts})
			if len(got) != len(test.want) {
				t.Fatalf("got %v, want %v", got, test.want)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("got %v, want %v", got, test.want)
				}
			}
		})
	}
	if len(serverAddrs(&dnsserver.Config{Port: "53", ListenHosts: []string{""}})) == 0 {
		t.Error("a server bound to every address has none")
	}
}
