package reflector

import (
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Times until a dead connection is noticed. client-go's defaults are 45 seconds over HTTP/2, and 5 minutes for TCP. Both checks need
// an answer of the other side's kernel or program only, so that a slow API server passes them.
const (
	pingAfter   = 5 * time.Second // of silence
	pingTimeout = 5 * time.Second
	keepAlive   = 5 * time.Second
	probes      = 3
)

// DetectDeadConnections returns a configuration whose clients notice when nothing arrives on a connection any more: over HTTP/2 within about
// ten seconds, by pings, over HTTP/1.1 within about twenty, by TCP's keep-alive probes, unless a proxy in between answers these. Requests on such
// a connection fail then, and the next ones use a new connection. Watches that wait for events cannot tell by themselves.
//
// Each client of the configuration has connections of its own; give all clients of a server one http.Client (rest.HTTPClientFor).
// Certificates and CAs that are rotated, and proxies, work as before.
func DetectDeadConnections(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{
			Timeout:         10 * time.Second,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: probes},
		}).DialContext
	}
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		// A transport with a dialer of its own belongs to one client, which does not use it yet. client-go shares the others.
		if t := innermost(rt); t != nil && t != http.DefaultTransport {
			t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
		}
		return rt
	})
	return c
}

// innermost returns the transport below all wrappers, or nil where that is of an unknown type.
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
