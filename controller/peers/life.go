package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// An API server that speaks HTTP/2 answers a ping even when it is too busy for requests. Without any
// data from it for suspectAfter, the endpoints of the peer are connected to each second. After
// silentAfter the peer is Unreachable.
const (
	pingAfter    = 2 * time.Second // of silence
	pingTimeout  = 3 * time.Second
	suspectAfter = 3 * time.Second
	silentAfter  = pingAfter + pingTimeout
	// listen is the pause between two looks at whether data arrives again.
	listen = 500 * time.Millisecond
)

var processStart = time.Now()

// sinceStart returns the nanoseconds between the start of the process and a time from time.Now. A
// change of the clock has no influence on it.
func sinceStart(t time.Time) int64 { return int64(t.Sub(processStart)) }

// noting wraps a round tripper and records when parts of answers arrive.
func (t *transport) noting(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := rt.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		t.pings.Store(response.ProtoMajor == 2)
		t.answered.Store(sinceStart(time.Now()))
		response.Body = &notedBody{response.Body, t}
		return response, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

type notedBody struct {
	io.ReadCloser
	owner *transport
}

// Read implements io.Reader.
func (b *notedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.owner.answered.Store(sinceStart(time.Now()))
	}
	return n, err
}

// quiet returns how long no data has arrived. Over HTTP/1.1, where nothing arrives between two
// events, it returns 0.
func (t *transport) quiet(now time.Time) time.Duration {
	if !t.pings.Load() {
		return 0
	}
	return time.Duration(sinceStart(now) - t.heard.Load())
}

// unanswered returns how long no part of an answer has arrived. A proxy in front of the API server
// answers pings itself.
func (t *transport) unanswered(now time.Time) time.Duration {
	return time.Duration(sinceStart(now) - t.answered.Load())
}

// lastAnswer returns when a part of an answer last arrived, or false if none ever has.
func (t *transport) lastAnswer() (at time.Time, answered bool) {
	now := time.Now()
	return now.Add(-t.unanswered(now)), t.answered.Load() != t.began
}

// hear records whether the API server is silent, until ctx ends. It does so also while a probe waits
// for an answer: that can last longer than it takes the endpoints to fail three times. They would then
// count as unproven, and could no longer show that the cluster is dead.
func (c *connection) hear(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.untilLook(time.Now())):
		}
		c.note(c.transport.quiet(time.Now()))
	}
}

// untilLook returns how long nothing can be noticed. While a peer answers, that is until it could be
// suspected at the earliest: data arrives at least every pingAfter, so that this is about 2 s.
func (c *connection) untilLook(now time.Time) time.Duration {
	if c.suspected || c.silent {
		return listen
	}
	return max(suspectAfter-c.transport.quiet(now), time.Millisecond)
}

// keepProbing asks for something at the start, if nothing was received for probeEvery, when the token was replaced, and
// again after a failure, until ctx ends. Over HTTP/1.1, and behind a proxy that answers pings, only this shows a silence.
// What the followers may not do, they report themselves.
func (c *connection) keepProbing(ctx context.Context) {
	every := c.peer.registry.probeEvery
	for pause := time.Duration(0); ; pause = wait.Jitter(every-every/10, 0.2) { // many controllers can have lost one API server at once
		for due := false; !due; {
			left := pause - c.transport.unanswered(time.Now())
			if c.probing != nil {
				left = min(pause, probeAgain)
			}
			select {
			case <-ctx.Done():
				return
			case <-c.swapped:
				due = true
			case <-time.After(max(left, time.Millisecond)):
				due = c.probing != nil || c.transport.unanswered(time.Now()) >= pause
			}
		}
		c.probe(ctx)
	}
}

// note records whether the API server is silent. Only hear calls it, and nothing else writes these
// fields: without a change, no lock is needed. With 99 peers it would be taken 200 times a second.
func (c *connection) note(quiet time.Duration) {
	suspected, silent := quiet >= suspectAfter, quiet >= silentAfter
	if suspected == c.suspected && silent == c.silent {
		return
	}
	c.peer.registry.mu.Lock()
	c.suspected, c.silent = suspected, silent
	c.peer.registry.mu.Unlock()
	c.peer.notify()
}

var errSilent = fmt.Errorf("no data has arrived for %v, not even the answer to a ping", silentAfter)

const (
	// probeTimeout is for one answer to a request for one object. A busy API server can need as long.
	probeTimeout = 10 * time.Second
	// probeAgain is the pause after a failed probe.
	probeAgain = 5 * time.Second
)

// probe asks for a slice that does not exist, and records whether this fails. Only keepProbing calls it.
func (c *connection) probe(ctx context.Context) {
	began := time.Now()
	short, cancel := context.WithTimeout(ctx, probeTimeout)
	err := c.question().Do(short).Error()
	timedOut := errors.Is(short.Err(), context.DeadlineExceeded)
	cancel()
	if err != nil && timedOut {
		c.transport.closeSilent(began)
	}
	if apierrors.IsTooManyRequests(err) {
		err = nil // A busy API server is not silent.
	}
	// A slow answer is no silence while other answers arrive, such as events of a watch.
	if slow := timedOut && c.transport.answered.Load() >= sinceStart(began); ctx.Err() != nil || slow {
		return
	}
	c.peer.registry.mu.Lock()
	c.probing = err
	c.peer.registry.mu.Unlock()
	c.peer.notify()
}

// question is a request that costs an API server next to nothing, for which the account has the right.
func (c *connection) question() *rest.Request {
	// Version 0 is answered from the API server's cache, without the limit. No object has the name.
	return c.clients[ofSlices][0].Client.Get().Resource(resourceNames[ofSlices]).Param("fieldSelector", "metadata.name=none.clusterset-dns.io").
		Param("resourceVersion", "0").MaxRetries(0)
}
