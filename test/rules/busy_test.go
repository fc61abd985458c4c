package rules

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/world"
)

// isWork reports whether a request writes something that follows from exports. Leases and events are also
// written when nothing has changed.
func isWork(request *http.Request) bool {
	path := request.URL.Path
	return request.Method != http.MethodGet && !strings.Contains(path, "/leases") && !strings.Contains(path, "/events")
}

// recorder notes the work that controllers write.
type recorder struct {
	mu     sync.Mutex
	writes []record
}

// record is one write, and what the server answered where it has refused it.
type record struct {
	cluster, request, refusal string
	status                    int
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// follow has the controller of a cluster recorded, from its next start to the end of the test.
func (r *recorder) follow(w *world.World, id string) {
	c := w.Cluster(id)
	account := c.Account
	w.Cleanup(func() { c.Account = account })
	c.Account = rest.CopyConfig(account)
	c.Account.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err != nil || !isWork(request) {
				return response, err
			}
			one := record{cluster: id, request: request.Method + " " + request.URL.Path, status: response.StatusCode}
			if response.StatusCode >= http.StatusBadRequest {
				text, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				response.Body = io.NopCloser(bytes.NewReader(text))
				one.refusal = string(text)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.writes = append(r.writes, one)
			return response, nil
		})
	})
}

// take gives the writes since the last call.
func (r *recorder) take() (writes []record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	writes, r.writes = r.writes, nil
	return writes
}

// A peer with many exports delays nothing: existing names stay up to date, and each new name takes
// five writes (its import, the derived Service, a slice, the ips, the status). The API server
// refuses none of them.
func TestPeerWithManyExports(t *testing.T) {
	const names = 200
	w := world.Two(t)
	c2, counted := w.Cluster("c2"), &recorder{}
	counted.follow(w, "c2")
	w.Must(c2.Leave(t.Context(), "c1"))
	s := w.Namespace()
	for _, id := range w.IDs() {
		w.Run(id)
	}
	s.Export("c2", world.Service("foo"), "10.9.2.1")
	var wg sync.WaitGroup
	const together = 8
	for part := range together {
		wg.Go(func() {
			for i := part; i < names; i += together {
				s.Export("c1", world.Service(fmt.Sprintf("many-%d", i)), "10.9.1.1")
			}
		})
	}
	wg.Wait()
	s.Until("c1 has all", func() error { return want(s, "c1", names+1) }) // and foo of c2
	s.Until("c2 has its own", func() error { return s.Imported("c2", "foo", []string{"c2"}, "10.9.2.1") })
	counted.take()

	s.Must(c2.Join(t.Context(), "c1", w.Cluster("c1").ReaderKubeconfig))
	s.Until("the sync begins", func() error { return want(s, "c2", 5) })
	world.Edit(s, "c2", new(discoveryv1.EndpointSlice), "foo-abc", func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Addresses = []string{"10.9.2.2"} })
	before := ready(s, "c2")
	s.Until("foo is up to date", func() error { return s.Imported("c2", "foo", []string{"c2"}, "10.9.2.2") })
	if after := ready(s, "c2"); after-before > (names+1-before)/2 {
		t.Errorf("foo waited until %d of %d names were ready, from %d", after, names+1, before)
	}
	s.Until("c2 has all", func() error { return want(s, "c2", names+1) })
	writes := counted.take()
	for _, one := range writes {
		if one.refusal != "" {
			t.Errorf("%s is refused with %d: %s", one.request, one.status, one.refusal)
		}
	}
	if len(writes) != 5*names+1 {
		t.Errorf("%d names and one change of foo's endpoint took %d writes; want %d", names, len(writes), 5*names+1)
	}
}

// ready counts the imports that are.
func ready(s *world.Namespace, id string) (ready int) {
	s.Helper()
	var all mcsv1beta1.ServiceImportList
	s.Must(s.Admin(id).List(s.Context(), &all, client.InNamespace(s.Name)))
	for i := range all.Items {
		if meta.IsStatusConditionTrue(all.Items[i].Status.Conditions, "Ready") {
			ready++
		}
	}
	return ready
}

func want(s *world.Namespace, id string, names int) error {
	if ready := ready(s, id); ready < names {
		return fmt.Errorf("%s has %d of %d names", id, ready, names)
	}
	return nil
}
