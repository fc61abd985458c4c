package load

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"time"

	"github.com/miekg/dns"
)

// patience is how long to wait for a reply before what is open counts as lost.
const patience = time.Second

// ask is our own generator: one goroutine on one socket, so that it costs little beside the server. Each reply makes room for one
// more question.
func ask(ctx context.Context, address string, l *Load, d time.Duration) (Outcome, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.(*net.UDPConn).SetReadBuffer(buffer << 10); err != nil {
		return Outcome{}, err
	}
	a := &asker{conn: conn, packets: l.packets, rcodes: map[int]int{}}
	begin := time.Now()
	err = a.run(ctx, begin.Add(d))
	return a.outcome(time.Since(begin)), err
}

type asker struct {
	conn    net.Conn
	packets [][]byte
	next    int // which packet, without end
	open    [1 << 16]bool
	waiting int // how many of open
	rcodes  map[int]int
	lost    int
	reply   [1 << 16]byte
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
	a.rcodes[int(reply[3]&0xf)]++
	return true
}

func (a *asker) outcome(elapsed time.Duration) Outcome {
	o := Outcome{Lost: a.lost, Elapsed: elapsed, Rcodes: map[string]int{}}
	for code, count := range a.rcodes {
		o.Answered += count
		o.Rcodes[dns.RcodeToString[code]] = count
	}
	return o
}
