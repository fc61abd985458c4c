package faultproxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
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

func start(t *testing.T, target string) *Proxy {
	t.Helper()
	p, err := Listen(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

type line struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *line {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &line{conn, bufio.NewReader(conn)}
}

func (l *line) say(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(l, text+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (l *line) hear(within time.Duration) (string, error) {
	if err := l.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	return l.in.ReadString('\n')
}

const long, short = 10 * time.Second, 100 * time.Millisecond

func (l *line) echoes(t *testing.T, text string) {
	t.Helper()
	l.say(t, text)
	if got, err := l.hear(long); got != text+"\n" {
		t.Fatalf("heard %q, %v; want %q", got, err, text)
	}
}

func TestCutEndsWhatThereIsAndTakesNewConnections(t *testing.T) {
	p := start(t, echo(t))
	l := dial(t, p)
	l.echoes(t, "one")
	if n := p.Cut(); n != 1 {
		t.Errorf("cut %d connections, want 1", n)
	}
	if got, err := l.hear(long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("heard %q, %v; want an end", got, err)
	}
	dial(t, p).echoes(t, "two")
}

func TestStallDelaysAndLosesNothing(t *testing.T) {
	p := start(t, echo(t))
	l := dial(t, p)
	l.echoes(t, "one")
	resume := p.Stall()
	fresh := dial(t, p)
	l.say(t, "two")
	fresh.say(t, "three")
	if got, err := l.hear(short); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("heard %q, %v; want nothing", got, err)
	}
	resume()
	for _, want := range []struct {
		*line
		text string
	}{{l, "two\n"}, {fresh, "three\n"}} {
		if got, err := want.hear(long); got != want.text {
			t.Errorf("heard %q, %v; want %q", got, err, want.text)
		}
	}
}

// Clients that time out connect again and again, for as long as a stall lasts.
func TestAClientThatGivesUpAStalledConnectionLeavesNothing(t *testing.T) {
	p := start(t, echo(t))
	l := dial(t, p)
	l.echoes(t, "one")
	resume := p.Stall()
	gone := dial(t, p)
	gone.say(t, "two")
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(long)
	for n := 2; n > 1; {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatalf("%d connections are left, want 1", n)
		}
		p.mu.Lock()
		n = len(p.pairs)
		p.mu.Unlock()
	}
	resume()
	l.echoes(t, "three")
}

func TestSlownessDelaysEachDirectionUntilItResumes(t *testing.T) {
	p := start(t, echo(t))
	l := dial(t, p)
	l.echoes(t, "one")
	resume := p.Slow(short)
	begin := time.Now()
	l.echoes(t, "two")
	if took := time.Since(begin); took < 2*short {
		t.Errorf("there and back took %v, want %v at least", took, 2*short)
	}
	resume()
	resume = p.Slow(time.Hour)
	fresh := dial(t, p)
	resume()
	fresh.echoes(t, "three")
}

func TestACutEndsASlowConnection(t *testing.T) {
	p := start(t, echo(t))
	l := dial(t, p)
	l.echoes(t, "one")
	p.Slow(time.Hour)
	l.say(t, "two")
	p.Cut()
	if got, err := l.hear(long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("heard %q, %v; want an end", got, err)
	}
}

func TestACutEndsAStalledConnection(t *testing.T) {
	p := start(t, echo(t))
	l := dial(t, p)
	l.echoes(t, "one")
	resume := p.Stall()
	l.say(t, "two")
	p.Cut()
	resume()
	if got, err := l.hear(long); err == nil {
		t.Errorf("heard %q; want an end", got)
	}
}

func TestAStrandedConnectionStaysSilent(t *testing.T) {
	p := start(t, echo(t))
	l := dial(t, p)
	l.echoes(t, "one")
	if n := p.Strand(); n != 1 {
		t.Errorf("stranded %d connections, want 1", n)
	}
	l.say(t, "two")
	if got, err := l.hear(short); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("heard %q, %v; want nothing", got, err)
	}
	dial(t, p).echoes(t, "three")
}

func TestConnectionsAreRefusedUntilItResumes(t *testing.T) {
	p := start(t, echo(t))
	l := dial(t, p)
	l.echoes(t, "one")
	resume, err := p.Refuse()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := l.hear(long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("heard %q, %v; want an end", got, err)
	}
	if _, err := net.Dial("tcp", p.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, want %v", err, syscall.ECONNREFUSED)
	}
	if err := resume(); err != nil {
		t.Fatal(err)
	}
	dial(t, p).echoes(t, "two")
}

func TestATargetThatIsAwayEndsTheConnection(t *testing.T) {
	p := start(t, "127.0.0.1:1")
	if got, err := dial(t, p).hear(long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("heard %q, %v; want an end", got, err)
	}
}
