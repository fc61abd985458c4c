package reflector

import (
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// These are the times until a dead connection is detected. client-go's defaults are 45 seconds over
// HTTP/2, and 5 minutes for TCP. Both checks only need an answer from the other side's kernel or
// program, so a slow API server passes them.
const (
	pingAfter   = 4 * time.Second // of silence
	pingTimeout = 4 * time.Second
	keepAlive   = 5 * time.Second
	probes      = 3
)

// DetectDeadConnections returns a configuration whose clients detect that no more data arrives on a
// connection: over HTTP/2 within about eight seconds, by pings; over HTTP/1.1 within about twenty
// seconds, by TCP keep-alive probes, unless a proxy in between answers these. Requests on such a
// connection then fail, and the next requests use a new connection. A watch that waits for events
// cannot detect this by itself.
//
// Each client of the configuration has its own connections. Give all clients of a server one
// http.Client (rest.HTTPClientFor). The rotation of certificates and CAs, and proxies, work as
// before.
func DetectDeadConnections(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{
			Timeout:         10 * time.Second,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: probes},
		}).DialContext
	}
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		// A transport with its own dialer belongs to one client, which does not use it yet.
		// client-go shares all other transports.
		if t := innermost(rt); t != nil && t != http.DefaultTransport {
			t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
		}
		return rt
	})
	return c
}

// innermost returns the transport below all wrappers, or nil if its type is unknown.
func innermost(rt http.RoundTripper) *http.Transport {
	for {
		switch t := rt.(type) {
		case *http.Transport:
			return t
		case utilnet.RoundTripperWrapper:
			rt = t.WrappedRoundTripper()
		default:
			return nil
		}
	}
}
