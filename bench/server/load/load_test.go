package load

import (
	"maps"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const said = `
Statistics:

  Queries sent:         136580
  Queries completed:    136570 (99.99%)
  Queries lost:         10 (0.01%)

  Response codes:       NOERROR 136000 (99.58%), NXDOMAIN 570 (0.42%)
  Average packet size:  request 46, response 120
  Run time (s):         2.000590
  Queries per second:   68264.862000
`

func TestDnsperfOutput(t *testing.T) {
	o, err := parse(said)
	if err != nil {
		t.Fatal(err)
	}
	if o.Answered != 136570 || o.Lost != 10 || o.Elapsed != 2000590*time.Microsecond {
		t.Errorf("%+v", o)
	}
	if want := map[string]int{"NOERROR": 136000, "NXDOMAIN": 570}; !maps.Equal(o.Rcodes, want) {
		t.Errorf("%v; want %v", o.Rcodes, want)
	}
	for _, part := range []string{"Queries completed", "Queries lost", "Run time", "Response codes"} {
		if o, err := parse(strings.Replace(said, part, "", 1)); err == nil {
			t.Errorf("without %s: %+v; want an error", part, o)
		}
	}
}

// A reply to a name with «no» in front is lost, one to «nx» an NXDOMAIN.
func reply(w dns.ResponseWriter, r *dns.Msg) {
	m := new(dns.Msg).SetReply(r)
	switch {
	case strings.HasPrefix(r.Question[0].Name, "no"):
		return
	case strings.HasPrefix(r.Question[0].Name, "nx"):
		m.Rcode = dns.RcodeNameError
	}
	_ = w.WriteMsg(m)
}

func serve(t *testing.T) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(reply)}
	go func() { _ = s.ActivateAndServe() }()
	t.Cleanup(func() { _ = s.ShutdownContext(t.Context()); _ = conn.Close() })
	return conn.LocalAddr().String()
}

func TestBothGeneratorsCountReplies(t *testing.T) {
	address := serve(t)
	l, err := New(t.TempDir(), "both", 4096, []Question{{"a.example.", dns.TypeA}, {"nx.example.", dns.TypeA}})
	if err != nil {
		t.Fatal(err)
	}
	generators := map[string]Generator{"own": ask}
	if path, err := exec.LookPath("dnsperf"); err == nil {
		generators["dnsperf"] = dnsperf(path)
	}
	for name, generate := range generators {
		o, err := generate(t.Context(), address, l, 200*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		ok, nx := o.Rcodes["NOERROR"], o.Rcodes["NXDOMAIN"]
		if o.Answered < window || o.Lost > 0 || ok+nx != o.Answered || ok-nx > window || nx-ok > window {
			t.Errorf("%s: %+v; want half of them NXDOMAIN", name, o)
		}
	}
}

func TestLostQuestionsMakeRoom(t *testing.T) {
	l, err := New(t.TempDir(), "lost", 0, []Question{{"no.example.", dns.TypeA}, {"a.example.", dns.TypeA}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := ask(t.Context(), serve(t), l, 10*time.Millisecond)
	if err != nil || o.Lost < window/2 || o.Answered < window/2 {
		t.Errorf("%+v, %v; want half of them lost", o, err)
	}
}
