package peers

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestUntilLook: the next look is when a peer that answers could first be suspected, and the next probe when it has to be probed.
func TestUntilLook(t *testing.T) {
	now := time.Now()
	const probeEvery = 30 * time.Second
	for _, test := range []struct {
		name                     string
		pings, suspected, silent bool
		failed                   error
		quiet, unanswered        time.Duration
		look, probe              time.Duration
	}{
		{name: "data a second ago", pings: true, quiet: time.Second, unanswered: time.Second, look: suspectAfter - time.Second, probe: probeEvery - time.Second},
		{name: "only pings are answered", pings: true, unanswered: 29 * time.Second, look: suspectAfter, probe: time.Second},
		{name: "HTTP/1.1 has no pings", quiet: 20 * time.Second, unanswered: 20 * time.Second, look: suspectAfter, probe: 10 * time.Second},
		{name: "late already", pings: true, quiet: time.Hour, unanswered: time.Hour, look: time.Millisecond, probe: time.Millisecond},
		{name: "suspected", pings: true, suspected: true, quiet: time.Hour, look: listen, probe: probeEvery},
		{name: "silent", pings: true, silent: true, quiet: time.Hour, look: listen, probe: probeEvery},
		{name: "a probe failed", pings: true, failed: errors.New("refused"), look: suspectAfter, probe: listen},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &connection{peer: &peer{registry: &Registry{}}, transport: &transport{}, suspected: test.suspected, silent: test.silent}
			c.transport.pings.Store(test.pings)
			c.transport.heard.Store(sinceStart(now.Add(-test.quiet)))
			c.transport.answered.Store(sinceStart(now.Add(-test.unanswered)))
			c.probing[ofSlices] = test.failed
			if look, probe := c.untilLook(now), c.untilProbe(now, probeEvery); look != test.look || probe != test.probe {
				t.Errorf("the next look is in %v, and the next probe in %v, expected in %v and %v", look, probe, test.look, test.probe)
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

// TestAPeerThatAnswersAgainIsProbedAtOnce is a regression test: a controller that started while a peer was away took
// ten seconds for each resource until the peer was connected. A resource that fails again ends the round.
func TestAPeerThatAnswersAgainIsProbedAtOnce(t *testing.T) {
	refused := ""
	l := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		if refused != "" && strings.HasSuffix(r.URL.Path, refused) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
	})
	fail := func() {
		for i := range l.probing {
			l.probing[i] = errors.New("connection refused")
		}
	}
	fail()
	l.probeFailed(t.Context())
	if failed, failing := l.failedProbe(); failing {
		t.Errorf("resource %d still counts as failed: %v", failed, l.probing[failed])
	}
	fail()
	refused = "/leases"
	l.probeFailed(t.Context())
	if failed, _ := l.failedProbe(); failed != ofMember || !apierrors.IsForbidden(l.probing[failed]) {
		t.Errorf("resource %d failed with %v; want the Leases, which are forbidden", failed, l.probing)
	}
}
