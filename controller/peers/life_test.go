package peers

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// TestUntilLook: the next look is when a peer that answers could first be suspected.
func TestUntilLook(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		name                     string
		pings, suspected, silent bool
		quiet, look              time.Duration
	}{
		{name: "data a second ago", pings: true, quiet: time.Second, look: suspectAfter - time.Second},
		{name: "data now", pings: true, look: suspectAfter},
		{name: "HTTP/1.1 has no pings", quiet: 20 * time.Second, look: suspectAfter},
		{name: "late already", pings: true, quiet: time.Hour, look: time.Millisecond},
		{name: "suspected", pings: true, suspected: true, quiet: time.Hour, look: listen},
		{name: "silent", pings: true, silent: true, quiet: time.Hour, look: listen},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &connection{transport: &transport{}, suspected: test.suspected, silent: test.silent}
			c.transport.pings.Store(test.pings)
			c.transport.heard.Store(sinceStart(now.Add(-test.quiet)))
			if look := c.untilLook(now); look != test.look {
				t.Errorf("the next look is in %v, expected in %v", look, test.look)
			}
		})
	}
}

// TestSilenceIsHeardDuringAProbe is a regression test: while a probe waited for its answer, up to ten seconds, nobody noticed that the
// network was cut. Endpoints that failed three times meanwhile were no longer proven, so the peer was never dead.
func TestSilenceIsHeardDuringAProbe(t *testing.T) {
	ended := make(chan struct{}, 1)
	l := hostile(t, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		select {
		case ended <- struct{}{}:
		default:
		}
	})
	l.transport.pings.Store(true)
	l.transport.heard.Add(-int64(suspectAfter))
	l.start(t.Context())
	defer l.stop()
	suspected := func() bool {
		l.peer.registry.mu.RLock()
		defer l.peer.registry.mu.RUnlock()
		return l.suspected
	}
	for !suspected() {
		select {
		case <-ended:
			t.Fatal("the probe ended first")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestProbes: over HTTP/1.1, only a request shows a silence. One is sent at the start, when nothing has arrived for a while, soon after a
// failure, and when the token was replaced. While data arrives, none is.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // of the next two
		now := http.StatusOK
		var asked []time.Duration
		began := time.Now()
		l := over(t, func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			status := now
			asked = append(asked, time.Since(began).Round(time.Second))
			mu.Unlock()
			if status == 0 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		})
		l.peer.registry.probeEvery = 30 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); l.keepProbing(ctx) }()
		expect := func(after time.Duration, least, most int, failed bool) {
			t.Helper()
			count := func() int {
				mu.Lock()
				defer mu.Unlock()
				return len(asked)
			}
			before := count()
			<-time.After(after)
			synctest.Wait()
			l.peer.registry.mu.RLock()
			defer l.peer.registry.mu.RUnlock()
			if n := count() - before; n < least || n > most || (l.probing != nil) != failed {
				t.Errorf("%d probes in %v, the last one with %v; want %d to %d", n, after, l.probing, least, most)
			}
		}
		answer := func(status int) {
			mu.Lock()
			defer mu.Unlock()
			now = status
		}
		expect(time.Second, 1, 1, false)
		expect(10*time.Minute, 18, 22, false)
		for range 100 {
			l.transport.answered.Store(sinceStart(time.Now()))
			expect(10*time.Second, 0, 0, false)
		}
		l.swapped <- struct{}{}
		expect(time.Second, 1, 1, false)
		answer(0)
		expect(time.Minute, 1, 3, true)
		answer(http.StatusTooManyRequests)
		expect(2*probeTimeout, 1, 1, false)
		answer(http.StatusForbidden)
		expect(time.Minute, 5, 13, true)
		answer(http.StatusOK)
		expect(probeAgain, 1, 1, false)
		cancel()
		<-ended
	})
}

// over returns a connection whose requests a function answers.
func over(t *testing.T, answer roundTripper) *connection {
	t.Helper()
	r := New(Options{Home: "home", Transport: func(string, func()) http.RoundTripper { return answer }})
	l, err := newConnection(&peer{registry: r, id: "east", wake: make(chan struct{}, 1)}, target{config: &rest.Config{Host: "https://east"}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
