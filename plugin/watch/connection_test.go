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

// A firewall forgets the connections to the API server. They stay open, and nothing arrives on them any more. client-go's own health
// check needs 45 seconds to notice; the limit has room for a slow machine.
func TestAConnectionThatHangsIsNoticedSoon(t *testing.T) {
	c := shared.Cluster(t)
	ns := kube.Namespace(t, c)
	proxy, err := faultproxy.Listen(strings.TrimPrefix(c.Config.Host, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	apply(t, c, ns, importText("v1beta1", "foo", "10.0.0.1"))
	w, _ := start(t, proxy.Config(c.Config), Options{Namespaces: []string{ns}})
	become(t, w, "foo."+ns, "10.0.0.1")
	if proxy.Strand() == 0 {
		t.Fatal("no connection goes through the proxy")
	}
	apply(t, c, ns, importText("v1beta1", "foo", "10.0.0.2"))
	began := time.Now()
	become(t, w, "foo."+ns, "10.0.0.2")
	took := time.Since(began)
	t.Logf("answered after %v", took)
	if took > 30*time.Second {
		t.Errorf("answered after %v", took)
	}
}

// A watch that the server accepts, beside a list that fails at each retry, is no recovery.
func TestAcceptedWatchAloneIsNotARecovery(t *testing.T) {
	var tries, works atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch query := r.URL.Query(); {
		case works.Load() != 0 && query.Get("sendInitialEvents") == "true":
			_, _ = fmt.Fprint(w, `{"type": "BOOKMARK", "object": {"kind": "ServiceImport", "apiVersion": "multicluster.x-k8s.io/v1beta1", `+
				`"metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}}}}`+"\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case query.Get("watch") != "": // is accepted, and ends with an error
			_, _ = fmt.Fprint(w, `{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": "broken"}}`+"\n")
		default:
			tries.Add(1)
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	_, h := start(t, &rest.Config{Host: server.URL}, Options{NoEndpoints: true})
	kube.Eventually(t, "four tries", func() error {
		if n := tries.Load(); n < 4 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	h.becomes([]string{"failed"})
	works.Store(1)
	h.becomes([]string{"failed", "recovered"})
}
