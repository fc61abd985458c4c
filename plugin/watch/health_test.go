package watch

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

// healthy waits until the state of each resource fits.
func healthy(t *testing.T, what string, w *Watch, fits func(Health) bool) []Health {
	t.Helper()
	var all []Health
	kube.Eventually(t, what, func() error {
		all = w.Health()
		for _, h := range all {
			if !fits(h) {
				return fmt.Errorf("it is %+v", all)
			}
		}
		return nil
	})
	return all
}

// A server that was cut off silently looked healthy: it went on to answer from old data.
func TestASilentlyCutOffServerBecomesVisible(t *testing.T) {
	c := shared.Cluster(t)
	proxy, err := faultproxy.Listen(strings.TrimPrefix(c.Config.Host, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	w, _ := start(t, proxy.Config(c.Config), Options{Namespaces: []string{kube.Namespace(t, c), kube.Namespace(t, c)}})
	if all := w.Health(); len(all) != 2 || all[0].Up || !all[0].Contact.IsZero() {
		t.Errorf("before the first answer it is %+v", all)
	}
	healthy(t, "up", w, func(h Health) bool { return h.Up && !h.Contact.IsZero() })
	resume := proxy.Stall()
	began := time.Now()
	down := healthy(t, "cut off", w, func(h Health) bool { return !h.Up })
	for _, h := range down {
		if late := h.Contact.Sub(began); late > time.Second { // what was on its way arrives
			t.Errorf("%s: the last contact is %v after the cut", h.Resource, late)
		}
	}
	resume()
	healthy(t, "back", w, func(h Health) bool {
		return h.Up && h.Contact.After(down[0].Contact) && h.Contact.After(down[1].Contact)
	})
}

// Nothing but bookmarks arrives on an idle watch. What a proxy answers in the place of a server is no contact.
func TestBookmarksAreContact(t *testing.T) {
	bookmark, gone := make(chan struct{}), make(chan struct{})
	var proxied atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-gone:
			proxied.Add(1)
			w.WriteHeader(http.StatusBadGateway)
			return
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		const format = `{"type": "BOOKMARK", "object": {"kind": "ServiceImport", "apiVersion": "multicluster.x-k8s.io/v1beta1", "metadata": {"resourceVersion": "%d", "annotations": {"k8s.io/initial-events-end": "true"}}}}`
		for n := 7; ; n++ {
			_, _ = fmt.Fprintf(w, format+"\n", n)
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-gone:
				return
			case <-bookmark:
			}
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	w, _ := start(t, &rest.Config{Host: server.URL}, Options{NoEndpoints: true})
	last := healthy(t, "up", w, func(h Health) bool { return h.Up })[0].Contact
	for range 3 {
		bookmark <- struct{}{}
		last = healthy(t, "a bookmark", w, func(h Health) bool { return h.Up && h.Contact.After(last) })[0].Contact
	}
	close(gone)
	down := healthy(t, "gone", w, func(h Health) bool { return !h.Up && proxied.Load() > 0 })[0]
	before := proxied.Load()
	after := healthy(t, "still gone", w, func(Health) bool { return proxied.Load() > before+1 })[0]
	if after.Contact != down.Contact {
		t.Errorf("the answers of a proxy count as contact: %v, then %v", down.Contact, after.Contact)
	}
}

// The API server answers, and there is nothing to watch.
func TestAnAbsentResourceIsInContactAndNotUp(t *testing.T) {
	c := shared.Cluster(t)
	withoutCRDs(t, c)
	w, h := start(t, c.Config, Options{NoEndpoints: true})
	h.becomes([]string{"absent"})
	healthy(t, "absent", w, func(h Health) bool { return !h.Up && !h.Contact.IsZero() })
}
