package reconcile

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// Probes answers /healthz from the start, and /readyz once the caches have synced. The manager's
// own server starts with the manager, which is too late: a process that waits for the CRD is
// healthy and must not be restarted.
type Probes struct {
	ready    atomic.Bool
	listener net.Listener
	server   *http.Server
}

// ListenProbes serves the probes until Close. With the address 0 it serves nothing.
func ListenProbes(ctx context.Context, address string) (*Probes, error) {
	p := &Probes{server: &http.Server{ReadHeaderTimeout: 5 * time.Second}}
	if address == "0" {
		return p, nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !p.ready.Load() {
			http.Error(w, "waiting for the ServiceImport CRD or for the first lists", http.StatusServiceUnavailable)
		}
	})
	var err error
	if p.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err != nil {
		return nil, err
	}
	p.server.Handler = mux
	go func() {
		if err := p.server.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
			p.ready.Store(false)
		}
	}()
	return p, nil
}

// Ready reports whether the caches are filled.
func (p *Probes) Ready() bool { return p.ready.Load() }

// Address returns the listen address.
func (p *Probes) Address() string { return p.listener.Addr().String() }

// Close stops the server.
func (p *Probes) Close() { _ = p.server.Close() }

// lostLeadership is an error that controller-runtime reports whenever a leader stops, even after a
// normal stop.
const lostLeadership = "leader election lost"

// endingSink omits the loss of leadership after ctx has ended: a normal stop is not an error.
type endingSink struct {
	logr.LogSink
	ctx context.Context //nolint:containedctx // only whether it has ended
}

func quietAtEnd(ctx context.Context, log logr.Logger) logr.Logger {
	return logr.New(endingSink{log.GetSink(), ctx})
}

// Error implements logr.LogSink.
func (s endingSink) Error(err error, message string, pairs ...any) {
	if s.ctx.Err() != nil && err != nil && err.Error() == lostLeadership {
		return
	}
	s.LogSink.Error(err, message, pairs...)
}

// WithValues implements logr.LogSink.
func (s endingSink) WithValues(pairs ...any) logr.LogSink {
	return endingSink{s.LogSink.WithValues(pairs...), s.ctx}
}

// WithName implements logr.LogSink.
func (s endingSink) WithName(name string) logr.LogSink {
	return endingSink{s.LogSink.WithName(name), s.ctx}
}
