package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/bench/soak/oracle"
)

// querier asks one question after the other, and has each answer checked.
type querier struct {
	*soak
	conn *dns.Conn
}

func (s *soak) withQuerier(do func(*querier) error) error {
	conn, err := dns.Dial("udp", s.server.Address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return do(&querier{s, conn})
}

// payload is the size of answers that is offered by EDNS: what is larger comes by TCP.
const payload = 4096

// run asks until ctx ends.
func (q *querier) run(ctx context.Context) {
	for ctx.Err() == nil {
		q.ask(ctx, q.someQuestion())
	}
}

// ask asks one question. An answer that came after the end is not looked at: CoreDNS may have been stopped.
func (q *querier) ask(ctx context.Context, question oracle.Question) {
	calm := q.calm.Load()
	asked := q.checker.Ask(question, q.now())
	m, err := q.exchange(question)
	replied := q.now()
	if ctx.Err() != nil {
		return
	}
	q.asked.Add(1)
	if err != nil {
		q.wrong.add(q.checker.Unanswered(asked, err, replied))
		return
	}
	age, wrong := q.checker.Answered(asked, m, replied)
	if wrong != nil {
		q.wrong.add(wrong)
	}
	if age > 0 && calm && q.calm.Load() {
		q.ages.add(age)
	}
}

// A datagram may get lost where the machine is busy.
const (
	timeout  = 5 * time.Second
	attempts = 3
)

// exchange asks in one of the two zones, and gives what is answered in otherZone as if it had been answered in the first one.
func (q *querier) exchange(question oracle.Question) (*dns.Msg, error) {
	if rand.IntN(2) == 0 {
		return q.send(question.Name, question.Type)
	}
	m, err := q.send(moved(question.Name, oracle.Zone, otherZone), question.Type)
	if err != nil {
		return nil, err
	}
	m.Question[0].Name = moved(m.Question[0].Name, otherZone, oracle.Zone)
	for _, rr := range slices.Concat(m.Answer, m.Ns, m.Extra) {
		rr.Header().Name = moved(rr.Header().Name, otherZone, oracle.Zone)
		switch rr := rr.(type) {
		case *dns.SRV:
			rr.Target = moved(rr.Target, otherZone, oracle.Zone)
		case *dns.SOA:
			rr.Ns, rr.Mbox = moved(rr.Ns, otherZone, oracle.Zone), moved(rr.Mbox, otherZone, oracle.Zone)
		}
	}
	return m, nil
}

// moved is a name of one zone in another one. Other names, such as that of an OPT record, stay as they are.
func moved(name, from, to string) string {
	if below, found := strings.CutSuffix(name, from); found {
		return below + to
	}
	return name
}

// send asks over UDP, again if there is no reply, and over TCP for what does not fit.
func (q *querier) send(name string, qtype uint16) (m *dns.Msg, err error) {
	query := new(dns.Msg).SetQuestion(name, qtype)
	query.SetEdns0(payload, false)
	udp := &dns.Client{Timeout: timeout}
	for range attempts {
		if m, _, err = udp.ExchangeWithConn(query, q.conn); err == nil {
			break
		}
		q.resent.Add(1)
	}
	if err != nil {
		return nil, fmt.Errorf("%d times: %w", attempts, err)
	}
	if !m.Truncated {
		return m, nil
	}
	q.overTCP.Add(1)
	tcp := &dns.Client{Net: "tcp", Timeout: timeout}
	m, _, err = tcp.Exchange(query, q.server.Address)
	return m, err
}

// someQuestion returns a question as clients ask them: mostly for addresses, of existing names and of names that never existed.
func (w *world) someQuestion() oracle.Question {
	v, h := w.vips[rand.IntN(len(w.vips))], w.headless[rand.IntN(len(w.headless))]
	somePort := rand.IntN(len(oracle.Ports))
	switch n := rand.IntN(100); {
	case n < 45:
		return v.Ask(dns.TypeA)
	case n < 60:
		return v.Ask(dns.TypeAAAA)
	case n < 68:
		return v.AskPort(somePort)
	case n < 75:
		return v.AskPort(oracle.All)
	case n < 82:
		return h.Ask(dns.TypeA)
	case n < 83:
		return h.Ask(dns.TypeAAAA)
	case n < 90:
		return h.AskHost(rand.IntN(len(h.Slices)), rand.IntN(smallSlice))
	case n < 91:
		return h.AskPort(somePort)
	case n < 92:
		return h.AskPort(oracle.All)
	case n < 97:
		return oracle.AskNothing(dnsName(fmt.Sprintf("nobody-%d", rand.IntN(1000)), namespaceOf(rand.IntN(namespaces+1))), dns.TypeA)
	default:
		return oracle.AskZone()
	}
}
