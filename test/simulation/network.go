package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/test/apiserver"
)

// network is what lies between clusters, and before their API servers.
type network struct {
	mu       sync.Mutex
	servers  map[string]http.Handler  // by the host of a URL
	of       map[string]string        // the cluster of a host
	cut      map[[2]string]bool       // clusters between which packets vanish, in both orders
	refusing map[string]bool          // clusters whose API servers do not listen
	silent   map[string]bool          // clusters whose API servers do not answer
	deadPods map[string]bool          // clusters whose pods do not answer
	slow     map[string]time.Duration // how long an API server takes for each answer
	wires    []*wire
}

// These are the times of a TCP client and of pings over HTTP/2, as the controller sets them.
const (
	dialTimeout = 5 * time.Second
	pingEvery   = 2 * time.Second
	pingTimeout = 3 * time.Second
)

// writeTakes is how long a request takes that writes.
const writeTakes = time.Millisecond

func newNetwork() *network {
	return &network{
		servers: map[string]http.Handler{}, of: map[string]string{}, cut: map[[2]string]bool{}, refusing: map[string]bool{}, silent: map[string]bool{}, deadPods: map[string]bool{}, slow: map[string]time.Duration{},
	}
}

// passes reports whether packets from a cluster reach another one.
func (n *network) passes(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.cut[[2]string{from, to}]
}

// answers reports whether a program of a cluster gets answers from an API server.
func (n *network) answers(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.cut[[2]string{from, to}] && !n.silent[to]
}

func (n *network) listens(cluster string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.refusing[cluster]
}

// disturbed reports whether anything does not work.
func (n *network) disturbed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, is := range n.cut {
		if is {
			return true
		}
	}
	for _, slow := range n.slow {
		if slow > 0 {
			return true
		}
	}
	for _, of := range []map[string]bool{n.refusing, n.silent, n.deadPods} {
		for _, is := range of {
			if is {
				return true
			}
		}
	}
	return false
}

// slowness is how long an API server takes for each answer.
func (n *network) slowness(cluster string) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.slow[cluster]
}

// edit changes the network.
func (n *network) edit(f func(*network)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n)
}

// connect is the data path: it opens a connection from a cluster to an endpoint.
func (n *network) connect(from string) func(context.Context, datapath.Target) (bool, error) {
	return func(ctx context.Context, at datapath.Target) (bool, error) {
		to := clusterOfPod(at.Addr())
		if !n.passes(from, to) {
			return false, wait(ctx, 1500*time.Millisecond)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		return !n.deadPods[to], nil
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// wire is the connections from one program to an API server. It ends with all requests of the program.
type wire struct {
	network *network
	from    string
	heard   func() // is called when data arrives; not nil

	mu      sync.Mutex
	streams map[*stream]bool
	pinging map[string]bool // the clusters to which streams are open
	muted   bool            // the program has ended for all others: what it writes does not arrive
	fuse    int             // it will at this write from now, if not 0
	before  bool            // and does not make that
	lose    int             // the answers to so many writes
}

func (n *network) wire(from string, heard func()) *wire {
	if heard == nil {
		heard = func() {}
	}
	w := &wire{network: n, from: from, heard: heard, streams: map[*stream]bool{}, pinging: map[string]bool{}}
	n.edit(func(n *network) { n.wires = append(n.wires, w) })
	return w
}

// reset breaks all streams from an API server at once.
func (n *network) reset(cluster string) {
	n.mu.Lock()
	wires := slices.Clone(n.wires)
	n.mu.Unlock()
	for _, w := range wires {
		w.breakAll(w.open(cluster), io.ErrUnexpectedEOF)
	}
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.network.mu.Lock()
	to := w.network.of[r.URL.Host]
	server := w.network.servers[r.URL.Host]
	w.network.mu.Unlock()
	if server == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: r.URL.Host, IsNotFound: true}}
	}
	locked := isLocked(r.URL.Path)
	if err := w.reach(r.Context(), to, !locked); err != nil {
		return nil, err
	}
	if slow := w.network.slowness(to); slow > 0 && !locked {
		if err := wait(r.Context(), slow); err != nil {
			return nil, err
		}
	}
	if err := w.burn(r, true); err != nil {
		return nil, err
	}
	// Two that undo each other's writes would else do so for ever in one moment.
	if r.Method != http.MethodGet && !locked {
		if err := wait(r.Context(), writeTakes); err != nil {
			return nil, err
		}
	}
	response, err := apiserver.RoundTripper{Handler: server}.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := w.burn(r, false); err != nil {
		return nil, err
	}
	w.heard()
	if r.URL.Query().Get("watch") != "" {
		response.Body = w.begin(to, response.Body)
	}
	return response, nil
}

var errCrashed = errors.New("the program has ended")

// isLocked reports whether libraries hold a lock while they make a request: client-go for Events, controller-runtime for discovery (/apis/GROUP/VERSION).
// Virtual time stops while somebody else waits for a lock, so that these do not take any.
func isLocked(path string) bool {
	return strings.Contains(path, "/events") || strings.Count(path, "/") < 3 || strings.HasPrefix(path, "/apis/") && strings.Count(path, "/") == 3
}

// reach fails as a connection attempt does, and can wait as long as one.
func (w *wire) reach(ctx context.Context, to string, waits bool) error {
	switch {
	case !w.network.answers(w.from, to):
		if waits {
			if err := wait(ctx, dialTimeout); err != nil {
				return err
			}
		}
		return &net.OpError{Op: "dial", Net: "tcp", Err: &url.Error{Op: "dial", URL: to, Err: timeout{}}}
	case !w.network.listens(to):
		return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return nil
}

// timeout is the error of a connection attempt without an answer.
type timeout struct{}

func (timeout) Error() string { return "i/o timeout" }
func (timeout) Timeout() bool { return true }

// stream is the body of an answer that has no end of its own.
type stream struct {
	io.ReadCloser
	wire *wire
	to   string

	mu     sync.Mutex
	broken error
}

func (w *wire) begin(to string, body io.ReadCloser) io.ReadCloser {
	s := &stream{ReadCloser: body, wire: w, to: to}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams[s] = true
	if !w.pinging[to] {
		w.pinging[to] = true
		go w.ping(to)
	}
	return s
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken != nil {
		return 0, broken
	}
	if n > 0 {
		s.wire.heard()
	}
	return n, err
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.wire.mu.Lock()
	delete(s.wire.streams, s)
	s.wire.mu.Unlock()
	return s.ReadCloser.Close()
}

// ping asks for a sign of life while streams to a cluster are open. Without one, they break.
func (w *wire) ping(to string) {
	silent := time.Duration(0)
	for {
		time.Sleep(pingEvery) //nolint:forbidigo // it is virtual time
		open := w.open(to)
		if len(open) == 0 {
			return
		}
		switch {
		case !w.network.listens(to):
			w.breakAll(open, io.ErrUnexpectedEOF)
		case w.network.answers(w.from, to):
			silent = 0
			w.heard()
		default:
			if silent += pingEvery; silent >= pingTimeout {
				w.breakAll(open, errors.New("http2: client connection lost"))
			}
		}
	}
}

// open are the streams from a cluster's API server. Without any, no pings are needed.
func (w *wire) open(to string) (open []*stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.streams {
		if s.to == to {
			open = append(open, s)
		}
	}
	w.pinging[to] = len(open) > 0
	return open
}

func (w *wire) breakAll(all []*stream, err error) {
	for _, s := range all {
		s.mu.Lock()
		s.broken = err
		s.mu.Unlock()
		_ = s.ReadCloser.Close()
	}
}

// works reports whether nothing happens to the program, nor is about to.
func (w *wire) works() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.muted && w.fuse == 0 && w.lose == 0
}

// mute ends the program for all others.
func (w *wire) mute() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.muted = true
}

func (w *wire) isMuted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.muted
}

// host is that of the API server of a cluster, as its peers know it.
func host(cluster string) string { return fmt.Sprintf("api.%s.example:6443", cluster) }
