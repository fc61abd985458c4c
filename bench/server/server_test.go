package main

import (
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

func TestAllNamesOfImportsAreOfOneLength(t *testing.T) {
	p := full
	length := len(p.importName(0).DNS())
	for _, i := range []int{p.imports.few - 1, p.imports.few, p.imports.some - 1, p.imports.some, p.imports.many - 1} {
		if name := p.importName(i).DNS(); len(name) != length {
			t.Errorf("%s is not of length %d", name, length)
		}
	}
	for _, q := range append(p.questions()[3].Names, dns.Question{Name: headlessName(10, 0).DNS()}) {
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
		titles[q.Title] = true
	}
	for title := range goals {
		if !titles[title] {
			t.Errorf("no query for %q", title)
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
	l := newLoad(measure.Question{Size: 4096}.Ask(dns.TypeA, 3, func(i int) string { return []string{"a", "nx", "no"}[i] + ".example." }))
	o, err := l.ask(t.Context(), listen(t), 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ok, nx := o.rcodes[dns.RcodeSuccess], o.rcodes[dns.RcodeNameError]
	if o.lost < window/3 || ok < window/3 || nx < window/3 || ok+nx != o.answered {
		t.Errorf("%+v; want a third of them lost, and a third NXDOMAIN", o)
	}
}

// these are figures in the order of the columns.
func these(figures ...float64) func(answerer) float64 {
	return func(who answerer) float64 {
		if at := slices.Index(everybody, who); at < len(figures) {
			return figures[at]
		}
		return math.NaN()
	}
}

func TestTheTable(t *testing.T) {
	got := table([]section{
		{"CPU per query, µs", []row{
			{"A", 1, []goal{{whoami, 1}, {inTree, 0.55}}, these(10.04, 20, 10, 9)},
			{"SRV", 1, nil, these(10.06, 20)},
		}},
		{"change", []row{{"p99, ms", 0, []goal{{"", 50}}, these(3.7)}, {"nothing", 0, []goal{{"", 1}, {inTree, 1}}, these()}}},
	})
	// 1.004 is shown as 1.00, and yet is no 1.00.
	const want = `           ours  in-tree  whoami  ready-made  goal     ours/in-tree    ours/whoami     ours/ready-made

CPU per query, µs
  A        10.0     20.0    10.0         9.0           0.50 ≤0.55 yes  1.00 ≤1.00 no   1.12
  SRV      10.1     20.0                               0.50

change
  p99, ms     4                               ≤50 yes
  nothing                                     ≤1 no    ≤1.00 no

2 of 5 goals are reached.
`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
