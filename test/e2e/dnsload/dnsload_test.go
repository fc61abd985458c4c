package dnsload

import (
	"context"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// answers maps each name to the server's answer. Other names are not answered.
var answers = map[string][]string{
	"web.test.":  {"web.test. 5 IN A 192.0.2.1"},
	"two.test.":  {"two.test. 5 IN A 192.0.2.1", "two.test. 5 IN A 192.0.2.2"},
	"path.test.": {"path.test. 5 IN CNAME web.test.", "web.test. 5 IN A 192.0.2.1"},
	"srv.test.":  {"srv.test. 5 IN SRV 0 100 80 web.test."},
	"fail.test.": nil,
}

// serve runs the server, over UDP and TCP, and gives its address.
func serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	packets, err := net.ListenPacket("udp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		name := m.Question[0].Name
		lines, known := answers[name]
		if !known {
			return
		}
		reply := new(dns.Msg).SetReply(m)
		if name == "fail.test." {
			reply.Rcode = dns.RcodeServerFailure
		}
		for _, line := range lines {
			record, err := dns.NewRR(line)
			if err != nil {
				t.Error(err)
			}
			reply.Answer = append(reply.Answer, record)
		}
		_ = w.WriteMsg(reply) // a client that has gone needs no answer
	})
	for _, server := range []*dns.Server{{Listener: listener, Handler: handler}, {PacketConn: packets, Handler: handler}} {
		go func() { _ = server.ActivateAndServe() }()
		t.Cleanup(func() { _ = server.Shutdown() })
	}
	return listener.Addr().String()
}

func ask(t *testing.T, d time.Duration, o Options, questions ...Question) Result {
	t.Helper()
	o.Server = serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	result, err := Run(ctx, o, questions)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestRightAnswersAreCounted(t *testing.T) {
	r := ask(t, 300*time.Millisecond, Options{Patience: time.Minute, Fresh: 3, Kept: 1, TCP: 1},
		Question{Name: "web.test", Type: "A", Rcode: "NOERROR", Data: []string{"192.0.2.1"}},
		Question{Name: "web.test", Type: "AAAA", Rcode: "NOERROR"},
		Question{Name: "two.test", Type: "A", Rcode: "NOERROR", Data: []string{"192.0.2.2"}, More: true},
		Question{Name: "path.test", Type: "A", Rcode: "NOERROR", Data: []string{"192.0.2.1"}},
		Question{Name: "srv.test", Type: "SRV", Rcode: "NOERROR", Data: []string{"0 100 80 web.test."}},
		Question{Name: "fail.test", Type: "A", Rcode: "SERVFAIL"})
	if r.Wrong != 0 || len(r.Unanswered) != 0 || len(r.Failures) != 0 {
		t.Errorf("%+v; want nothing wrong", r)
	}
	if r.Asked < 100 || r.Rcodes["NOERROR"]+r.Rcodes["SERVFAIL"] != r.Asked || r.Rcodes["SERVFAIL"] == 0 {
		t.Errorf("%d questions, and answers %v", r.Asked, r.Rcodes)
	}
	for _, way := range []way{fresh, kept, byTCP} {
		if r.Ways[way.name] == 0 {
			t.Errorf("answers %v; want some over %s", r.Ways, way.name)
		}
	}
	if r.P50 <= 0 || r.P50 > r.P99 || r.P99 > r.Longest || r.Longest > r.Took {
		t.Errorf("half within %v, 99 %% within %v, all within %v, in %v", r.P50, r.P99, r.Longest, r.Took)
	}
}

func TestWrongAnswersAreNoted(t *testing.T) {
	for what, q := range map[string]Question{
		"SERVFAIL, want NOERROR":                           {Name: "fail.test", Type: "A", Rcode: "NOERROR"},
		`["192.0.2.1"], want ["192.0.2.9"]`:                {Name: "web.test", Type: "A", Rcode: "NOERROR", Data: []string{"192.0.2.9"}, More: true},
		`["192.0.2.1"], want [] and nothing else`:          {Name: "web.test", Type: "A", Rcode: "NOERROR"},
		`want ["192.0.2.1"] and nothing else`:              {Name: "two.test", Type: "A", Rcode: "NOERROR", Data: []string{"192.0.2.1"}},
		`["0 100 80 web.test."], want ["0 100 81 web.test`: {Name: "srv.test", Type: "SRV", Rcode: "NOERROR", Data: []string{"0 100 81 web.test."}},
		`[], want ["2001:db8::1"]`:                         {Name: "web.test", Type: "AAAA", Rcode: "NOERROR", Data: []string{"2001:db8::1"}},
		`["192.0.2.1"], want ["192.0.2.1" "192.0.2.2"]`:    {Name: "path.test", Type: "A", Rcode: "NOERROR", Data: []string{"192.0.2.1", "192.0.2.2"}},
	} {
		r := ask(t, 50*time.Millisecond, Options{Patience: time.Minute, Fresh: 1}, q)
		if r.Wrong == 0 || r.Wrong != r.Asked || len(r.Unanswered) != 0 || len(r.Failures) == 0 || len(r.Failures) > room {
			t.Errorf("%s: %+v; want every answer wrong, and some noted", what, r)
			continue
		}
		if f := r.Failures[0]; !strings.Contains(f.What, what) || f.Question != q.String() || f.Way != "udp" || f.At.IsZero() {
			t.Errorf("%+v; want %s", f, what)
		}
	}
}

// What is not answered is asked twice: here with as little success.
func TestMissingAnswersAreNoted(t *testing.T) {
	for _, o := range []Options{{Fresh: 1}, {TCP: 1}} {
		o.Patience = 60 * time.Millisecond
		r := ask(t, 50*time.Millisecond, o, Question{Name: "silent.test", Type: "A", Rcode: "NXDOMAIN"})
		if r.Asked != 1 || r.Retried != 0 || r.Wrong != 0 || len(r.Failures) != 1 || !maps.Equal(r.Unanswered, map[string]int{r.Failures[0].Way: 1}) {
			t.Fatalf("%+v; want one question without an answer", r)
		}
		if f := r.Failures[0]; !strings.HasPrefix(f.What, "no answer (question 1 of a socket from port ") || f.Took < o.Patience {
			t.Errorf("%+v; want no answer for %v", f, o.Patience)
		}
	}
}

func TestASecondTryIsNotTheAnswer(t *testing.T) {
	counted := newTally()
	counted.unanswered(Failure{Way: Kept, What: "no answer"}, true)
	counted.answered("NOERROR", "udp", time.Second)
	r := counted.sum(time.Minute)
	if r.Asked != 2 || r.Unanswered[Kept] != 1 || r.Retried != 1 || !maps.Equal(r.Rcodes, map[string]int{"NOERROR": 1}) || r.Longest != time.Second {
		t.Errorf("%+v", r)
	}
}
