package peers

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// TestWatchesOfAPeerHaveABudget: a peer that ends each watch after an event is asked at the
// rate of the budget. client-go would begin the next one at once.
func TestWatchesOfAPeerHaveABudget(t *testing.T) {
	t.Parallel()
	const beyond = 10
	var watches atomic.Int32
	l := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		object := `"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}}`
		if r.URL.Query().Has("watch") {
			watches.Add(1)
			_, _ = fmt.Fprintf(w, `{"type": "BOOKMARK", "object": {%s}}{"type": "BOOKMARK", "object": {%s}}`, object, object)
			return
		}
		_, _ = fmt.Fprint(w, `{"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "metadata": {"resourceVersion": "7"}, "items": []}`)
	})
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { l.followers[ofMember].Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	kube.Eventually(t, "more watches than a burst", func() error {
		if n := watches.Load(); n < watchBurst+beyond {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	if took, least := time.Since(began), (beyond-1)*time.Second/watchRate; took < least {
		t.Errorf("%d watches after %v; want at least %v", watches.Load(), took, least)
	}
	if l.budget.exceeded.Load() == 0 {
		t.Error("nobody is told")
	}
}

// TestEventsOfAPeerHaveABudget: events beyond the burst arrive at the rate of the budget, all of
// them, and a large one counts as many.
func TestEventsOfAPeerHaveABudget(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ events, size, units int }{
		"many events":  {1 + eventRate, 10, 1 + eventRate},
		"large events": {1 + eventRate/10, 9 * eventUnit, 10 * (1 + eventRate/10)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				for range test.events {
					_, _ = fmt.Fprintf(w, `{"type": "ADDED", "object": {"kind": "ServiceExport", "apiVersion": "multicluster.x-k8s.io/v1beta1", "metadata": {"name": %q}}}`+"\n", strings.Repeat("a", test.size))
				}
			})
			const burst = eventRate / 2
			l.budget.events = rate.NewLimiter(eventRate, burst)
			began, got := time.Now(), 0
			w, err := l.clients[ofExports][0].Client.Get().Resource("any").VersionedParams(&metav1.ListOptions{Watch: true}, metav1.ParameterCodec).Watch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range w.ResultChan() {
				got++
			}
			took, least := time.Since(began), time.Duration(test.units-burst-1)*time.Second/eventRate
			if got != test.events || took < least {
				t.Errorf("%d events of %d after %v; want at least %v", got, test.events, took, least)
			}
		})
	}
}

// TestUnfinishedEventsCount: an event that ends too early has been read like others.
func TestUnfinishedEventsCount(t *testing.T) {
	t.Parallel()
	l := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"type": "ADDED", "object": {"kind": "%s`, strings.Repeat("a", 50*eventUnit))
	})
	const burst = 100
	l.budget.events = rate.NewLimiter(rate.Every(time.Hour), burst)
	w, err := l.clients[ofExports][0].Client.Get().Resource("any").VersionedParams(&metav1.ListOptions{Watch: true}, metav1.ParameterCodec).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range w.ResultChan() {
	}
	if left := l.budget.events.Tokens(); left > burst-50 {
		t.Errorf("%.0f units of %d are left", left, burst)
	}
}

// TestABudgetIsToldByTheCondition: the condition of a peer tells that its budget was exceeded.
func TestABudgetIsToldByTheCondition(t *testing.T) {
	t.Parallel()
	there, _, config := away(t)
	there.export("v1beta1", "foo")
	r := newPlace(t).read(t)
	r.join(there.id, config)
	r.is(there.id, Connected, "reads from")
	r.Registry.mu.RLock()
	of := r.peers[there.id].connection.budget
	r.Registry.mu.RUnlock()
	of.events.SetBurst(1)
	for range 3 {
		of.read(0)
	}
	there.export("v1beta1", "bar")
	r.is(there.id, Connected, "read slowly")
	r.says(there.name("bar"), there.id)
}
