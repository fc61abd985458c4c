package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/internal/reflector"
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

// keepProbing lists each resource, without objects, at the start, because a user with permission to
// watch may have no permission to list. Later it lists one only if nothing was received for
// probeEvery, or if the last list failed, until ctx ends.
func (c *connection) keepProbing(ctx context.Context) {
	c.probeAll(ctx)
	c.peer.registry.mu.Lock()
	c.probed = true
	c.peer.registry.mu.Unlock()
	c.peer.notify()
	began, pause := time.Now(), c.probePause()
	for next := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-c.swapped:
			c.probeAll(ctx)
			c.peer.notify()
		case <-time.After(c.untilProbe(time.Now(), pause)):
		}
		now := time.Now()
		_, failing := c.failedProbe()
		switch {
		case failing && now.Sub(began) >= min(pause, probeTimeout):
			c.probeFailed(ctx)
		case !failing && c.transport.unanswered(now) >= pause:
			next = (next + 1) % int(resources)
			c.probeOne(ctx, next)
		default:
			continue
		}
		began, pause = now, c.probePause()
		c.peer.notify()
	}
}

// untilProbe returns how long no probe can be due.
func (c *connection) untilProbe(now time.Time, pause time.Duration) time.Duration {
	if _, failing := c.failedProbe(); failing {
		return min(listen, pause)
	}
	return max(pause-c.transport.unanswered(now), time.Millisecond)
}

// probeAll probes each resource, until no answer arrives in time.
func (c *connection) probeAll(ctx context.Context) {
	for resource := 0; resource < int(resources) && c.probeOne(ctx, resource); resource++ {
	}
}

// failedProbe returns a resource whose last request by probeOne failed.
func (c *connection) failedProbe() (resource int, failed bool) {
	c.peer.registry.mu.RLock()
	defer c.peer.registry.mu.RUnlock()
	resource = slices.IndexFunc(c.probing[:], func(err error) bool { return err != nil })
	return resource, resource >= 0
}

// probeFailed probes the resources whose last probe failed, until one fails again. One at a time, with
// the pause after each, a peer that answers again would be Unreachable for half a minute.
func (c *connection) probeFailed(ctx context.Context) {
	for last := -1; ; {
		failed, failing := c.failedProbe()
		if !failing || failed == last {
			return
		}
		c.probeOne(ctx, failed)
		last = failed
	}
}

// probePause returns probeEvery with jitter: many controllers can have lost one API server at once.
func (c *connection) probePause() time.Duration {
	every := c.peer.registry.probeEvery
	return wait.Jitter(every-every/10, 0.2)
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

// probeTimeout is for one answer to a request for one object. A busy API server can need as long.
const probeTimeout = 10 * time.Second

// probeOne probes one resource. It returns false if no answer arrived in time.
func (c *connection) probeOne(ctx context.Context, resource int) bool {
	began := time.Now()
	short, cancel := context.WithTimeout(ctx, probeTimeout)
	err := c.ask(short, resource)
	timedOut := errors.Is(short.Err(), context.DeadlineExceeded)
	cancel()
	if err != nil && timedOut {
		c.transport.closeSilent(began)
	}
	// A slow answer is no silence while other answers arrive, such as events of a watch.
	slow := timedOut && c.transport.answered.Load() >= sinceStart(began)
	if ctx.Err() == nil && !slow {
		c.peer.registry.mu.Lock()
		defer c.peer.registry.mu.Unlock()
		c.probing[resource] = err
	}
	return !timedOut
}

// ask lists a resource, without any object, in the first version that the server supports.
func (c *connection) ask(ctx context.Context, resource int) error {
	for _, version := range c.probes[resource] {
		err := c.probe(version, resource).Do(ctx).Error()
		if apierrors.IsTooManyRequests(err) {
			return nil // A busy API server is not silent.
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return reflector.ErrAbsent
}

func (c *connection) probe(version reflector.Version, resource int) *rest.Request {
	// Version 0 is answered from the API server's cache, without the limit. No object has the name. Of Leases, the account has no right for
	// another one.
	namespace, name := "", "none.clusterset-dns.io"
	if resource == ofMember {
		namespace, name = c.namespace, member.Name
	}
	return version.Client.Get().Resource(resourceNames[resource]).NamespaceIfScoped(namespace, namespace != "").
		Param("fieldSelector", "metadata.name="+name).Param("resourceVersion", "0").MaxRetries(0)
}
