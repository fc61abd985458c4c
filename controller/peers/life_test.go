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

// TestUntilLook: the next look is when a peer that answers could first be suspected, or has to be probed.
func TestUntilLook(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		name                        string
		pings, suspected, silent    bool
		failed                      error
		quiet, unanswered, expected time.Duration
	}{
		{name: "data a second ago", pings: true, quiet: time.Second, unanswered: time.Second, expected: suspectAfter - time.Second},
		{name: "only pings are answered", pings: true, unanswered: 29 * time.Second, expected: time.Second},
		{name: "HTTP/1.1 has no pings", quiet: 20 * time.Second, unanswered: 20 * time.Second, expected: suspectAfter},
		{name: "late already", pings: true, quiet: time.Hour, unanswered: time.Hour, expected: time.Millisecond},
		{name: "suspected", pings: true, suspected: true, quiet: time.Hour, expected: listen},
		{name: "silent", pings: true, silent: true, quiet: time.Hour, expected: listen},
		{name: "a probe failed", pings: true, failed: errors.New("refused"), expected: listen},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &connection{peer: &peer{registry: &Registry{}}, transport: &transport{}, suspected: test.suspected, silent: test.silent}
			c.transport.pings.Store(test.pings)
			c.transport.heard.Store(sinceStart(now.Add(-test.quiet)))
			c.transport.answered.Store(sinceStart(now.Add(-test.unanswered)))
			c.probing[ofSlices] = test.failed
			if got := c.untilLook(now, 30*time.Second); got != test.expected {
				t.Errorf("the next look is in %v, expected in %v", got, test.expected)
			}
		})
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
	refused = "/namespaces"
	l.probeFailed(t.Context())
	if failed, _ := l.failedProbe(); failed != ofNamespaces || !apierrors.IsForbidden(l.probing[failed]) {
		t.Errorf("resource %d failed with %v; want the namespaces, which are forbidden", failed, l.probing)
	}
}
