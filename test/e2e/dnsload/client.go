package dnsload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/miekg/dns"
)

// way is how a client asks.
type way struct {
	name    string
	network string
	keep    int // number of questions of a socket; 0: no limit
}

// Kept names the way over a socket that the client never closes. So many clients of the program ask in this way.
const (
	Kept        = "udp, one socket"
	KeptSockets = 2
)

var (
	fresh = way{"udp", "udp", 16}
	kept  = way{Kept, "udp", 0}
	byTCP = way{"tcp", "tcp", 16}
)

// Ways are the names of all.
var Ways = []string{fresh.name, kept.name, byTCP.name}

// client asks one question at a time.
type client struct {
	way      way
	messages []*dns.Msg // of the questions. To send one changes it
	server   string
	patience time.Duration
	ports    *ports
	conn     *dns.Conn // or nil
	dialed   time.Time // when it was
	used     int       // how many questions it was for
	tally    *tally
}

// run asks question after question, beginning with one of its own, until the context ends. The last one gets its answer.
func (c *client) run(ctx context.Context, questions []Question) {
	defer c.hangUp()
	for i := rand.IntN(len(questions)); ctx.Err() == nil; i++ {
		c.ask(questions[i%len(questions)], c.messages[i%len(questions)])
	}
}

func (c *client) ask(q Question, message *dns.Msg) {
	began := time.Now()
	answer, err := c.exchange(message)
	took := time.Since(began)
	if err != nil {
		again, retryErr := c.exchange(message)
		c.tally.unanswered(Failure{At: began, Took: took, Way: c.way.name, Question: q.String(), What: err.Error()},
			retryErr == nil && q.check(again) == nil)
		return
	}
	c.tally.answered(dns.RcodeToString[answer.Rcode], c.way.name, took)
	if err := q.check(answer); err != nil {
		c.tally.wrong(Failure{At: began, Took: took, Way: c.way.name, Question: q.String(), What: err.Error()})
	}
}

// exchange sends a question and waits for its answer. After an error, the next question has a new socket. The error says how old the socket
// was, and how busy all clients: a flow that outlives its server by long looks different from one that met it by chance.
func (c *client) exchange(message *dns.Msg) (*dns.Msg, error) {
	message.Id = uint16(rand.Uint32())
	if c.conn != nil && c.way.keep > 0 && c.used >= c.way.keep {
		c.hangUp()
	}
	if c.conn == nil {
		conn, err := c.dial()
		if err != nil {
			return nil, err
		}
		c.conn, c.used, c.dialed = &dns.Conn{Conn: conn}, 0, time.Now()
	}
	c.used++
	over := dns.Client{Net: c.way.network, Timeout: c.patience}
	answer, _, err := over.ExchangeWithConn(message, c.conn)
	if err != nil {
		err = fmt.Errorf("%s (question %d of a socket from port %s, %v old; %d questions before this one)", explain(err), c.used, port(c.conn),
			time.Since(c.dialed).Round(time.Millisecond), c.tally.asked())
		c.hangUp()
	}
	return answer, err
}

func port(conn net.Conn) string {
	_, port, _ := net.SplitHostPort(conn.LocalAddr().String())
	return port
}

func (c *client) dial() (net.Conn, error) {
	dialer := net.Dialer{Timeout: c.patience}
	if c.way.network != "udp" {
		return dialer.Dial(c.way.network, c.server)
	}
	for {
		dialer.LocalAddr = &net.UDPAddr{Port: c.ports.next()}
		conn, err := dialer.Dial(c.way.network, c.server)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return conn, err
		}
	}
}

// ports are the clients' UDP ports, taken in turn: each rests as long as it can. A kernel that translates addresses knows for half a
// minute where the questions of a port went, and sends those of the next socket with this port to the same server. Among the pods of
// a cluster that hardly happens; one that asked as much as all of them, from ports by chance, would always do it.
type ports struct{ taken atomic.Uint32 }

const firstPort, lastPort = 10000, 64999

func (p *ports) next() int { return firstPort + int(p.taken.Add(1)%(lastPort-firstPort+1)) }

func (c *client) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// explain leaves the addresses out: the client's port is another each time.
func explain(err error) string {
	var op *net.OpError
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "no answer"
	}
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}
