package main

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

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
			a.giveUp()
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

func (a *asker) giveUp() {
	a.lost += a.waiting
	a.waiting = 0
	clear(a.open[:])
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
