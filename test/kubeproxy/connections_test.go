package kubeproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world"
)

// echo serves on TCP port 8080 and UDP port 8053 of an address: it answers each line, or packet, with
// the address.
func echo(t *testing.T, address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address+":8080")
	if err != nil {
		t.Fatal(err)
	}
	packets, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", address+":8053")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = listener.Close(), packets.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for in := bufio.NewScanner(c); in.Scan(); {
					if _, err := fmt.Fprintln(c, address); err != nil {
						return
					}
				}
			}()
		}
	}()
	go func() {
		for buffer := make([]byte, 100); ; {
			_, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo([]byte(address+"\n"), from)
		}
	}()
}

// asker is a connection, or a UDP socket, that is kept.
type asker struct{ net.Conn }

// ask returns which address answers.
func (a asker) ask() (string, error) {
	_ = a.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := fmt.Fprintln(a); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(a).ReadString('\n')
	return strings.TrimSpace(line), err
}

// dialAsker connects, until the endpoint with the address answers.
func dialAsker(t *testing.T, network, address, want string) asker {
	t.Helper()
	var a asker
	kube.Eventually(t, fmt.Sprintf("%s answers over %s", want, network), func() error {
		c, err := new(net.Dialer).DialContext(t.Context(), network, address)
		if err != nil {
			return err
		}
		a = asker{c}
		who, err := a.ask()
		if err == nil && who != want {
			err = fmt.Errorf("%s answers", who)
		}
		if err != nil {
			_ = c.Close()
		}
		return err
	})
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// What docs/silent-clusters.md promises about traffic when an endpoint is removed that still serves:
// TCP connections stay, a UDP socket reaches another endpoint, and session affinity ends.
func TestTrafficOfARemovedEndpoint(t *testing.T) {
	s := newStage(t)
	s.start()
	const stays, goes = "10.99.0.11", "10.99.0.12"
	echo(t, stays)
	echo(t, goes)
	foo := world.Service("foo", world.Ports(corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "dns", Port: 53, Protocol: "UDP"}))
	foo.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	leaves, more := world.Endpoints(foo, "-goes", goes), world.Endpoints(foo, "-stays", stays)
	s.Create("c1", foo, world.Export("foo"), leaves)
	s.serves("derived-foo", goes)
	ip := s.clusterIP("derived-foo")
	tcp, udp := dialAsker(t, "tcp", net.JoinHostPort(ip, "80"), goes), dialAsker(t, "udp", net.JoinHostPort(ip, "53"), goes)
	s.Create("c1", more)
	s.serves("derived-foo", stays, goes)
	for range 20 { // by session affinity
		if who, err := once(t.Context(), net.JoinHostPort(ip, "80")); err != nil || who != goes {
			t.Fatalf("with session affinity, %q answers, %v", who, err)
		}
	}

	s.Delete("c1", leaves)
	s.serves("derived-foo", stays)
	if who, err := tcp.ask(); err != nil || who != goes {
		t.Errorf("the TCP connection is answered by %q, %v", who, err)
	}
	kube.Eventually(t, "the UDP socket reaches the other endpoint", func() error {
		who, err := udp.ask()
		if err == nil && who != stays {
			err = errors.New(who)
		}
		return err
	})
	for range 20 {
		if who, err := once(t.Context(), net.JoinHostPort(ip, "80")); err != nil || who != stays {
			t.Fatalf("a new connection is answered by %q, %v", who, err)
		}
	}
}

// A connection that gets no answer leaves a record in the kernel for two minutes. A client that uses
// the source port again reaches the same endpoint, although it is removed: what
// docs/silent-clusters.md promises about new connections is true of other ports.
func TestSourcePortOfAnUnansweredConnection(t *testing.T) {
	s := newStage(t)
	s.start()
	const stays, goes = "10.99.0.11", "10.99.0.13" // where no server of another test has left a connection in TIME_WAIT
	echo(t, stays)
	kube.Deaf(t, goes+":8080")
	svc := world.Service("foo")
	leaves := world.Endpoints(svc, "-goes", goes)
	s.Create("c1", svc, world.Export("foo"), leaves)
	s.serves("derived-foo", goes)
	foo := net.JoinHostPort(s.clusterIP("derived-foo"), "80")
	if who, err := from(t.Context(), 20001, foo); !os.IsTimeout(err) {
		t.Fatalf("before the endpoint is removed, %q answers, %v", who, err)
	}
	s.Create("c1", world.Endpoints(svc, "-stays", stays))
	s.Delete("c1", leaves)
	s.serves("derived-foo", stays)
	if who, err := from(t.Context(), 20001, foo); !os.IsTimeout(err) {
		t.Errorf("on the same source port, %q answers, %v", who, err)
	}
	if who, err := from(t.Context(), 20002, foo); err != nil || who != stays {
		t.Errorf("on another source port, %q answers, %v", who, err)
	}
}

// once asks on a connection of its own.
func once(ctx context.Context, address string) (string, error) { return from(ctx, 0, address) }

// from asks on a connection of its own from a source port, or from any for 0.
func from(ctx context.Context, port int, address string) (string, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}, Timeout: 2 * time.Second}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	return asker{c}.ask()
}
