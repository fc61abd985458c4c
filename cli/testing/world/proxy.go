package world

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/tools/clientcmd/api"
)

// Proxy is an HTTP proxy that alone knows where clusters are: their contexts have the proxy, and a
// name that no resolver has.
type Proxy struct {
	url   string
	ways  map[string]string // from the names to the addresses
	taken atomic.Int64
}

// URL is where it listens.
func (p *Proxy) URL() string { return p.url }

// Taken returns how many connections it has made.
func (p *Proxy) Taken() int64 { return p.taken.Load() }

// BehindProxy lets the contexts of clusters lead through a new proxy, which ends with the test. The
// contexts get their entries back then.
func (w *World) BehindProxy(t testing.TB, ids ...string) *Proxy {
	t.Helper()
	p := &Proxy{ways: map[string]string{}}
	server := httptest.NewServer(p)
	p.url = server.URL
	before := map[string]*api.Cluster{}
	for _, id := range ids {
		before[id] = w.Config.Clusters[id]
		entry := before[id].DeepCopy()
		name := id + ".invalid:6443"
		p.ways[name] = strings.TrimPrefix(entry.Server, "https://")
		entry.Server, entry.ProxyURL, entry.TLSServerName = "https://"+name, p.url, "kubernetes.default.svc"
		w.Config.Clusters[id] = entry
	}
	w.WriteConfig()
	t.Cleanup(func() {
		for id, entry := range before {
			w.Config.Clusters[id] = entry
		}
		w.WriteConfig()
		server.CloseClientConnections()
		server.Close()
	})
	return p
}

// ServeHTTP implements http.Handler for the method CONNECT (RFC 9110, section 9.3.6).
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, known := p.ways[r.Host]
	if r.Method != http.MethodConnect || !known {
		http.Error(w, "no way to "+r.Method+" "+r.Host, http.StatusForbidden)
		return
	}
	server, err := new(net.Dialer).DialContext(r.Context(), "tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = server.Close() }()
	p.taken.Add(1)
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = client.Close() }()
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, buffered)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}
