package faultproxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo is a server that sends lines back.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

const long, short = time.Minute, 100 * time.Millisecond

// line is a connection to echo.
type line struct {
	net.Conn
	in *bufio.Reader
}

// dial connects and says the first word. A refusal gives no line.
func dial(t *testing.T, p *Proxy) *line {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address())
	if err != nil {
		return nil
	}
	t.Cleanup(func() { _ = conn.Close() })
	l := &line{conn, bufio.NewReader(conn)}
	l.say(t)
	return l
}

func (l *line) say(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(l, "word\n"); err != nil {
		t.Fatal(err)
	}
}

// hears is what becomes of a word: "word", "nothing" for some time, or "the end".
func (l *line) hears(patience time.Duration) string {
	if l == nil {
		return "the end"
	}
	_ = l.SetReadDeadline(time.Now().Add(patience))
	switch text, err := l.in.ReadString('\n'); {
	case err == nil:
		return text[:len(text)-1]
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "nothing"
	default:
		return "the end"
	}
}

// TestEachFaultIsThere: a fault that is not there would let the tests that set it pass.
func TestEachFaultIsThere(t *testing.T) {
	refuse := func(p *Proxy) func() {
		resume, err := p.Refuse()
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := resume(); err != nil {
				t.Fatal(err)
			}
		}
	}
	nothing := func() {}
	for name, c := range map[string]struct {
		begin           func(*Proxy) (end func())
		old, fresh      string // what connections of before the fault hear, and new ones
		oldAfter, after string // the same when it has ended
	}{
		"no fault":          {func(*Proxy) func() { return nothing }, "word", "word", "nothing", "nothing"},
		"cut":               {func(p *Proxy) func() { p.Cut(); return nothing }, "the end", "word", "the end", "nothing"},
		"refused":           {refuse, "the end", "the end", "the end", "the end"},
		"stalled":           {(*Proxy).Stall, "nothing", "nothing", "word", "word"},
		"slow":              {func(p *Proxy) func() { return p.Slow(10 * short) }, "nothing", "nothing", "word", "word"},
		"stranded":          {func(p *Proxy) func() { p.Strand(); return nothing }, "nothing", "word", "nothing", "nothing"},
		"cut while stalled": {func(p *Proxy) func() { resume := p.Stall(); p.Cut(); return resume }, "the end", "nothing", "the end", "word"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Listen(echo(t))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}()
			old := dial(t, p)
			if got := old.hears(long); got != "word" {
				t.Fatalf("before the fault, a connection hears %s", got)
			}
			end := c.begin(p)
			_, _ = io.WriteString(old, "word\n") // fails where it has ended
			fresh := dial(t, p)
			hears := func(when, want string, l *line) {
				t.Helper()
				patience := long
				if want == "nothing" {
					patience = short
				}
				if got := l.hears(patience); got != want {
					t.Errorf("%s hears %s; want %s", when, got, want)
				}
			}
			hears("an old connection", c.old, old)
			hears("a new connection", c.fresh, fresh)
			end()
			hears("afterwards an old connection", c.oldAfter, old)
			hears("afterwards a new connection", c.after, fresh)
			hears("a connection made afterwards", "word", dial(t, p))
		})
	}
}
