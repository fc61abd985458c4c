package kube

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// Deaf listens on an IPv4 address, with a port or 0, and accepts nothing: the queue of connections is
// full, so the kernel drops each SYN, as if the host had no power. It returns the address.
func Deaf(t testing.TB, address string) netip.AddrPort {
	t.Helper()
	at := netip.MustParseAddrPort(address)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at = netip.AddrPortFrom(at.Addr(), uint16(bound.(*syscall.SockaddrInet4).Port))
	for {
		conn, err := net.DialTimeout("tcp", at.String(), 300*time.Millisecond)
		if err != nil {
			return at
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}

// Greet sends a text to every client that connects to an address, until the end of the test. It
// returns the port, which the system chooses for port 0.
func Greet(t testing.TB, address, text string) (port int32) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(connection, text)
			_ = connection.Close()
		}
	}()
	return int32(listener.Addr().(*net.TCPAddr).Port)
}
