package dns

import (
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// client is one of several that ask at once.
type client struct {
	chain *chain
	rand  *rand.Rand
	udp   *dns.Conn
}

func newClient(c *chain, seed, number uint64) (*client, error) {
	conn, err := net.Dial("udp", c.udp)
	if err != nil {
		return nil, err
	}
	return &client{c, rand.New(rand.NewPCG(seed, number)), &dns.Conn{Conn: conn}}, nil
}

func (c *client) close() { _ = c.udp.Close() }

// burst puts several questions at once, each in its own way, and checks every reply.
func (c *client) burst(questions []question) error {
	waiting := map[uint16]ask{}
	for _, q := range questions {
		a := c.chain.newAsk(c.rand, q)
		if _, taken := waiting[a.id]; taken {
			continue
		}
		if a.network == "tcp" {
			if _, err := c.overTCP(a); err != nil {
				return err
			}
			continue
		}
		if err := c.udp.WriteMsg(a.message()); err != nil {
			return err
		}
		waiting[a.id] = a
	}
	for len(waiting) > 0 {
		if err := c.receive(waiting); err != nil {
			return err
		}
	}
	return nil
}

// receive reads one reply over UDP.
func (c *client) receive(waiting map[uint16]ask) error {
	if err := c.udp.SetReadDeadline(time.Now().Add(resolver.Patience)); err != nil {
		return err
	}
	wire := make([]byte, dns.MaxMsgSize)
	n, err := c.udp.Conn.Read(wire)
	if err != nil {
		return fmt.Errorf("%d questions without a reply, such as %v: %w", len(waiting), waiting, err)
	}
	m := new(dns.Msg)
	if err := m.Unpack(wire[:n]); err != nil {
		return err
	}
	a, ok := waiting[m.Id]
	if !ok {
		return fmt.Errorf("a reply to none of the questions, or a second one: %v", m)
	}
	delete(waiting, m.Id)
	if n > a.limit() {
		return a.wrong(fmt.Errorf("%d bytes, more than %d", n, a.limit()), m)
	}
	if err := c.chain.check(a, m); err != nil {
		return a.wrong(err, m)
	}
	if m.Truncated {
		return c.retry(a)
	}
	return nil
}

// retry asks for the whole of a truncated reply, as a resolver does, which must be more than fitted.
func (c *client) retry(a ask) error {
	m, err := c.overTCP(a)
	if err != nil {
		return err
	}
	m.Compress = true
	if m.Len() <= min(a.limit(), udpSize) {
		return a.wrong(fmt.Errorf("truncated over UDP, and has only %d bytes", m.Len()), m)
	}
	return nil
}

func (c *client) overTCP(a ask) (*dns.Msg, error) {
	m, err := resolver.Exchange("tcp", c.chain.tcp, a.message())
	switch {
	case err != nil:
	case m.Truncated:
		err = a.wrong(fmt.Errorf("truncated over TCP"), m)
	default:
		err = c.chain.check(a, m)
		if err != nil {
			err = a.wrong(err, m)
		}
	}
	return m, err
}

// wrong returns an error that contains the question of the wrong reply.
func (a ask) wrong(err error, m *dns.Msg) error {
	return fmt.Errorf("%s %s, form %d over %s with EDNS size %d, do %t: %w\nin %d answers, %d and %d", a.name, dns.TypeToString[a.qtype],
		a.form, a.network, a.size, a.do, err, len(m.Answer), len(m.Ns), len(m.Extra))
}
