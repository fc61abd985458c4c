package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func TestAllNamesOfImportsAreOfOneLength(t *testing.T) {
	p := full
	length := len(p.importName(0).DNS())
	for _, i := range []int{p.imports.few - 1, p.imports.few, p.imports.some - 1, p.imports.some, p.imports.many - 1} {
		if name := p.importName(i).DNS(); len(name) != length {
			t.Errorf("%s is not of length %d", name, length)
		}
	}
	for _, q := range append(p.questions()[3].names, dns.Question{Name: headlessName(10, 0).DNS()}) {
		if len(q.Name) != length {
			t.Fatalf("%s is not of length %d", q.Name, length)
		}
	}
}

func TestOutcomesThatCount(t *testing.T) {
	for _, c := range []struct {
		what  string
		o     outcome
		who   answerer
		rcode int
		valid bool
	}{
		{"as asked for", outcome{answered: 5000, rcodes: map[int]int{dns.RcodeSuccess: 5000}}, ours, dns.RcodeSuccess, true},
		{"a few lost", outcome{answered: 5000, lost: 5, rcodes: map[int]int{dns.RcodeSuccess: 5000}}, ours, dns.RcodeSuccess, true},
		{"many lost", outcome{answered: 5000, lost: 6, rcodes: map[int]int{dns.RcodeSuccess: 5000}}, ours, dns.RcodeSuccess, false},
		{"another rcode", outcome{answered: 5000, rcodes: map[int]int{dns.RcodeServerFailure: 5000}}, ours, dns.RcodeSuccess, false},
		{"whoami has every name", outcome{answered: 5000, rcodes: map[int]int{dns.RcodeSuccess: 5000}}, whoami, dns.RcodeNameError, true},
		{"no answer at all", outcome{}, ours, dns.RcodeSuccess, false},
	} {
		if err := valid(c.o, c.who, c.rcode); (err == nil) != c.valid {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestGoalsAreOfQuestionsThatAreAsked(t *testing.T) {
	titles := map[string]bool{}
	for _, q := range full.questions() {
		titles[q.title] = true
	}
	for title := range goals {
		if !titles[title] {
			t.Errorf("no query for %q", title)
		}
	}
}

func TestOnlyWhatWasMeasuredIsInTheTable(t *testing.T) {
	b := &bench{plan: full}
	b.samples.add(cpuPerQuery, "A", ours, 11)
	b.samples.add(cpuPerQuery, "A", inTree, 22)
	var out strings.Builder
	if err := writeTable(&out, b.sections()); err != nil {
		t.Fatal(err)
	}
	const want = `      ours  in-tree  whoami  ready-made  goal  ours/in-tree    ours/whoami  ours/ready-made

CPU per query, µs, at 10 000 imports
  A  11.00    22.00                            0.50 ≤0.55 yes  ≤1.00 no

1 of 2 goals are reached.
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

func TestNamesInTheHeading(t *testing.T) {
	if got := release("CoreDNS-1.15.0\nlinux/amd64, go1.26.8, abc-dirty\n"); got != "CoreDNS 1.15.0, linux/amd64, go1.26.8" {
		t.Errorf("%q", got)
	}
	for n, want := range map[int]string{500: "500", 2000: "2000", 10_000: "10 000", 100_000: "100 000"} {
		if got := grouped(n); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

// One answer that comes is not enough: the first collections leave what is still to be freed.
func TestAHeapIsThatAfterAllCollections(t *testing.T) {
	for _, every := range []int64{1, 3, 10} { // which of the requests is answered
		requests := int64(0)
		heap, err := afterCollections(t.Context(), func(context.Context) (int64, error) {
			if requests++; requests%every != 0 {
				return 0, errors.New("busy")
			}
			return 1000 - requests, nil
		})
		switch want := 1000 - 4*every; {
		case every < 10 && (err != nil || heap != want):
			t.Errorf("one of %d requests is answered: %d, %v; want %d", every, heap, err, want)
		case every == 10 && (err == nil || !strings.Contains(err.Error(), "2 of 4 garbage collections")):
			t.Errorf("two requests are answered: %d, %v", heap, err)
		}
	}
}

func TestReadingShowsWhyAWatchEnded(t *testing.T) {
	const added, end = `{"type":"ADDED","object":{}}` + "\n", `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
	for stream, want := range map[string]string{
		added + end: "<nil>",
		added + `{"type":"ERROR","object":{"message":"too old"}}` + "\n": "too old",
		added: io.ErrUnexpectedEOF.Error(),
	} {
		if err := readImports(strings.NewReader(stream)); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %v; want %s", stream, err, want)
		}
	}
}

// A reply to a name with «no» in front is lost, one to «nx» an NXDOMAIN.
func loseSome(w dns.ResponseWriter, r *dns.Msg) {
	m := new(dns.Msg).SetReply(r)
	switch {
	case strings.HasPrefix(r.Question[0].Name, "no"):
		return
	case strings.HasPrefix(r.Question[0].Name, "nx"):
		m.Rcode = dns.RcodeNameError
	}
	_ = w.WriteMsg(m)
}

func listen(t *testing.T) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(loseSome)}
	go func() { _ = s.ActivateAndServe() }()
	t.Cleanup(func() { _ = s.ShutdownContext(t.Context()); _ = conn.Close() })
	return conn.LocalAddr().String()
}

func TestRepliesAreCounted(t *testing.T) {
	address := listen(t)
	l, err := newLoad(4096, []dns.Question{{Name: "a.example.", Qtype: dns.TypeA}, {Name: "nx.example.", Qtype: dns.TypeA}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := l.ask(t.Context(), address, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ok, nx := o.rcodes[dns.RcodeSuccess], o.rcodes[dns.RcodeNameError]
	if o.answered < window || o.lost > 0 || ok+nx != o.answered || ok-nx > window || nx-ok > window {
		t.Errorf("%+v; want half of them NXDOMAIN", o)
	}
}

func TestLostQuestionsMakeRoom(t *testing.T) {
	l, err := newLoad(0, []dns.Question{{Name: "no.example.", Qtype: dns.TypeA}, {Name: "a.example.", Qtype: dns.TypeA}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := l.ask(t.Context(), listen(t), 10*time.Millisecond)
	if err != nil || o.lost < window/2 || o.answered < window/2 {
		t.Errorf("%+v, %v; want half of them lost", o, err)
	}
}
