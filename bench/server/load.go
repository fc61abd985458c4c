package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

// What is measured of a load.
const (
	cpuPerQuery = "CPU per query, µs"
	perSecond   = "queries per second"
	replyBytes  = "bytes of a reply"
)

// askAll measures a question of each server, after a look at one reply of each.
func (b *bench) askAll(ctx context.Context, servers []*server, q measure.Question) {
	l := newLoad(q)
	for _, s := range servers {
		if err := b.inspect(s, q, l); err != nil {
			measure.Check(fmt.Errorf("%s of %s: %w", s.title, s.who, err))
		}
	}
	b.turns(ctx, servers, l, func(s *server) { b.ask(ctx, s, l, q.Rcode, s.title) })
}

// turns calls ask for each server in each round, after each was warmed up with a load. Another one begins each round: what slows the
// machine down for a while then slows all of them.
func (b *bench) turns(ctx context.Context, servers []*server, warm *load, ask func(*server)) {
	for _, s := range servers {
		measure.Must(warm.ask(ctx, s.Address, b.warmUp))
	}
	for round := range b.rounds {
		for i := range servers {
			ask(servers[(round+i)%len(servers)])
		}
	}
}

// ask loads a server and adds what a query cost it: the server's own user and system time. On two cores, queries per second measure the load
// generator as well. A sample in which packets were lost, because something else kept the machine busy, is taken anew: only a server that
// loses them always is an error.
func (b *bench) ask(ctx context.Context, s *server, l *load, rcode int, title string) {
	const tries = 4
	var bad error
	for range tries {
		before := measure.Must(s.CPU())
		o := measure.Must(l.ask(ctx, s.Address, b.load))
		spent := measure.Must(s.CPU()) - before
		if bad = valid(o, s.who, rcode); bad == nil {
			b.samples.add(cpuPerQuery, title, s.who, float64(spent.Nanoseconds())/1e3/float64(o.answered))
			b.samples.add(perSecond, title, s.who, float64(o.answered)/o.elapsed.Seconds())
			return
		}
		b.say("  again, as %s of %s was no measurement: %v", title, s.who, bad)
	}
	measure.Check(fmt.Errorf("%s of %s: %w", title, s.who, bad))
}

// valid refuses what would be a measurement of something else: lost packets, or other answers than those asked for.
func valid(o outcome, who answerer, rcode int) error {
	if who == whoami {
		rcode = dns.RcodeSuccess
	}
	const most = 1000 // one in so many
	if as := o.rcodes[rcode]; o.answered == 0 || o.lost > o.answered/most || o.answered-as > o.answered/most {
		return fmt.Errorf("want all answered with %s: %d lost, %v", dns.RcodeToString[rcode], o.lost, o.rcodes)
	}
	return nil
}

// inspect looks at one reply: that it has what is asked for and is not cut, and how big it is.
func (b *bench) inspect(s *server, q measure.Question, l *load) error {
	reply, err := exchange(s.Address, l.packets[0])
	if err != nil {
		return err
	}
	b.samples.add(replyBytes, s.title, s.who, float64(len(reply)))
	m := new(dns.Msg)
	if err := m.Unpack(reply); err != nil {
		return err
	}
	if s.who != whoami && (m.Truncated || m.Rcode != q.Rcode || len(m.Answer) != q.Answers) {
		return fmt.Errorf("want %d whole records, got %v", q.Answers, m)
	}
	return nil
}

// exchange sends one packet and gives the next, as they are.
func exchange(address string, packet []byte) ([]byte, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	reply := make([]byte, 1<<16)
	err = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if err == nil {
		_, err = conn.Write(packet)
	}
	if err != nil {
		return nil, err
	}
	n, err := conn.Read(reply)
	return reply[:n], err
}

// window is how many questions are open at a time. With much fewer, the server falls asleep between them; with more, the replies with
// two hundred records no longer fit into the buffer, in KiB, that a socket can have.
const (
	window = 40
	buffer = 208
)

// load is what to ask, over and over, from the first question to the last.
type load struct{ packets [][]byte }

// newLoad packs the questions.
func newLoad(q measure.Question) *load {
	l := &load{}
	for _, name := range q.Names {
		m := new(dns.Msg).SetQuestion(name.Name, name.Qtype)
		if q.Size > 0 {
			m.SetEdns0(q.Size, false)
		}
		l.packets = append(l.packets, measure.Must(m.Pack()))
	}
	return l
}

// outcome is what came back.
type outcome struct {
	answered, lost int
	elapsed        time.Duration
	rcodes         map[int]int
}

// patience is how long to wait for a reply before what is open counts as lost.
const patience = time.Second

// ask asks a server over UDP for some time, as fast as it answers: one goroutine on one socket, so that it costs little beside the server.
// Each reply makes room for one more question.
func (l *load) ask(ctx context.Context, address string, long time.Duration) (outcome, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.(*net.UDPConn).SetReadBuffer(buffer << 10); err != nil {
		return outcome{}, err
	}
	a := &asker{conn: conn, packets: l.packets, outcome: outcome{rcodes: map[int]int{}}}
	begin := time.Now()
	err = a.run(ctx, begin.Add(long))
	a.elapsed = time.Since(begin)
	return a.outcome, err
}

type asker struct {
	conn    net.Conn
	packets [][]byte
	next    int // which packet, without end
	open    [1 << 16]bool
	waiting int // how many of open
	reply   [1 << 16]byte
	outcome
}

func (a *asker) run(ctx context.Context, end time.Time) error {
	for time.Now().Before(end) && ctx.Err() == nil {
		if err := a.fill(); err != nil {
			return err
		}
		if err := a.receive(window / 2); err != nil {
			return err
		}
	}
	return errors.Join(ctx.Err(), a.receive(a.waiting))
}

// fill asks until the window is full.
func (a *asker) fill() error {
	for a.waiting < window {
		packet, id := a.packets[a.next%len(a.packets)], uint16(a.next)
		binary.BigEndian.PutUint16(packet, id)
		a.next++
		a.open[id] = true
		a.waiting++
		if _, err := a.conn.Write(packet); err != nil {
			return err
		}
	}
	return nil
}

// receive waits for some replies, or until all that are open are lost.
func (a *asker) receive(count int) error {
	if err := a.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	for count > 0 {
		n, err := a.conn.Read(a.reply[:])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			a.lost += a.waiting
			a.waiting = 0
			clear(a.open[:])
			return nil
		}
		if err != nil {
			return err
		}
		if a.note(a.reply[:n]) {
			count--
		}
	}
	return nil
}

// note counts a reply. One that comes after it was given up, or twice, is none.
func (a *asker) note(reply []byte) bool {
	if len(reply) < 12 {
		return false
	}
	id := binary.BigEndian.Uint16(reply)
	if !a.open[id] {
		return false
	}
	a.open[id] = false
	a.waiting--
	a.answered++
	a.rcodes[int(reply[3]&0xf)]++
	return true
}
