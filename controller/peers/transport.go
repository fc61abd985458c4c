package peers

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// transport carries the requests to one peer. It is not the one that client-go would make and keep: it ends with the connection, and its
// connections can be closed when they are dead. The package connrotation of client-go closes all of them or none: with it, one slow
// answer would end all watches of the peer, and each list would be read again.
type transport struct {
	http   *http.Transport
	client *http.Client
	dialer net.Dialer

	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
}

// conn is a network connection that knows when something arrived on it last.
type conn struct {
	net.Conn
	owner    *transport
	lastRead atomic.Int64 // in nanoseconds since 1970
}

func newTransport(config *rest.Config) (*transport, error) {
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
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
	if config.Proxy != nil {
		t.http.Proxy = config.Proxy
	}
	wrapped, err := rest.HTTPWrappersForConfig(config, t.http)
	if err != nil {
		return nil, err
	}
	t.client = &http.Client{Transport: boundedTransport{wrapped}}
	return t, nil
}

func (t *transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	plain, err := t.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: plain, owner: t}
	c.lastRead.Store(time.Now().UnixNano())
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed { // http.Transport goes on dialling for requests that have ended
		return nil, errors.Join(net.ErrClosed, plain.Close())
	}
	t.conns[c] = struct{}{}
	return c, nil
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.lastRead.Store(time.Now().UnixNano())
	}
	return n, err
}

func (c *conn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.conns, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// closeSilent closes the connections on which nothing arrived since a request was sent that nobody answered: a firewall may have
// forgotten them, and watches on them would wait for long. One that is just slow stays.
func (t *transport) closeSilent(since time.Time) {
	t.closeThose(func(c *conn) bool { return c.lastRead.Load() < since.UnixNano() })
}

// close ends every connection, also those that are just being made.
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
