package kube

import (
	"errors"
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
