package peers

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// transport sends the requests to one peer. It replaces the transport that client-go would create
// and cache: it ends with the connection, and its dead network connections can be closed. The
// package connrotation of client-go can only close all network connections at once. With it, one
// slow answer would end all watches of the peer, and each list would be read again.
type transport struct {
	http   *http.Transport
	client *http.Client
	dialer net.Dialer

	// heard is when data last arrived on any connection, also the answer to a ping. answered is when
	// a part of an answer last arrived. Both are from sinceStart.
	heard, answered atomic.Int64
	began           int64       // the value of both before the first answer
	pings           atomic.Bool // the server speaks HTTP/2
	// token is the token of further requests, nil for none. It replaces the one in the configuration,
	// which client-go never changes.
	token atomic.Pointer[string]

	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
}

// Transport returns what sends requests to the API server with an address. heard is to be called whenever data arrives, also the answer to
// a ping.
type Transport func(host string, heard func()) http.RoundTripper

// conn is a network connection that records when data last arrived.
type conn struct {
	net.Conn
	owner    *transport
	lastRead atomic.Int64 // from sinceStart
}

func newTransport(config *rest.Config, limit *budget, instead Transport) (*transport, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	t := &transport{dialer: net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}, conns: map[*conn]struct{}{}}
	t.http = &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         t.dial,
		TLSClientConfig:     tls,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  config.DisableCompression,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	if config.Proxy != nil {
		t.http.Proxy = config.Proxy
	}
	others := rest.CopyConfig(config)
	if config.BearerToken != "" {
		t.token.Store(&config.BearerToken)
		others.BearerToken = ""
	}
	wire := http.RoundTripper(t.http)
	if instead != nil {
		wire = instead(config.Host, func() { t.heard.Store(sinceStart(time.Now())) })
	}
	wrapped, err := rest.HTTPWrappersForConfig(others, t.authorizing(wire))
	if err != nil {
		return nil, err
	}
	t.client = &http.Client{Transport: boundedTransport{t.noting(wrapped), limit}}
	t.began = sinceStart(time.Now())
	t.heard.Store(t.began)
	t.answered.Store(t.began)
	return t, nil
}

// authorizing wraps a round tripper and adds the token to requests that have no credentials.
func (t *transport) authorizing(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if token := t.bearer(); token != "" && request.Header.Get("Authorization") == "" {
			request = utilnet.CloneRequest(request)
			request.Header.Set("Authorization", "Bearer "+token)
		}
		return rt.RoundTrip(request)
	})
}

// bearer returns the token of further requests, or "".
func (t *transport) bearer() string {
	if token := t.token.Load(); token != nil {
		return *token
	}
	return ""
}

func (t *transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	plain, err := t.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: plain, owner: t}
	c.lastRead.Store(sinceStart(time.Now()))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed { // http.Transport dials even after the request has ended
		return nil, errors.Join(net.ErrClosed, plain.Close())
	}
	t.conns[c] = struct{}{}
	return c, nil
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		now := sinceStart(time.Now())
		c.lastRead.Store(now)
		c.owner.heard.Store(now)
	}
	return n, err
}

func (c *conn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.conns, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// closeSilent closes the connections on which nothing has arrived since the given time, when a
// request without an answer was sent. A firewall may have dropped them, and watches on them would
// wait for a long time. A connection that is only slow stays.
func (t *transport) closeSilent(since time.Time) {
	t.closeThose(func(c *conn) bool { return c.lastRead.Load() < sinceStart(since) })
}

// close closes every connection, including those that are being established.
func (t *transport) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.closeThose(func(*conn) bool { return true })
	t.http.CloseIdleConnections()
}

func (t *transport) closeThose(which func(*conn) bool) {
	t.mu.Lock()
	var chosen []*conn
	for c := range t.conns {
		if which(c) {
			chosen = append(chosen, c)
		}
	}
	t.mu.Unlock()
	for _, c := range chosen {
		_ = c.Close()
	}
}
