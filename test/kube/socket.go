package kube

import (
	"context"
	"net"
)

// dialSocket connects to a Unix socket, whatever address is asked for.
func dialSocket(path string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
}
