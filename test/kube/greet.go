package kube

import (
	"io"
	"net"
	"testing"
)

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
