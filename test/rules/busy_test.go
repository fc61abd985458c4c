package rules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// isWork reports whether a request writes something that follows from exports. Leases, events and the
// heartbeat are also written when nothing has changed.
func isWork(request *http.Request) bool {
	path := request.URL.Path
	if request.Method == http.MethodGet || strings.Contains(path, "/leases") || strings.Contains(path, "/events") {
		return false
	}
	if request.Method != http.MethodPatch || path != "/api/v1/namespaces/"+SystemNamespace || request.GetBody == nil {
		return true
	}
	body, err := request.GetBody()
	if err != nil {
		return true
	}
	text, err := io.ReadAll(body)
	return err != nil || !bytes.Contains(text, []byte(mcs.AnnotationHeartbeat))
}

// tally counts the writes that a controller makes, by the server's answer. Only work counts.
type tally struct {
	mu      sync.Mutex
	by      map[int]int // HTTP status
	refused []string    // method, path and answer of each write that the server refused
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (c *tally) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && isWork(request) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.by[response.StatusCode]++
			if response.StatusCode >= http.StatusBadRequest {
				text, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				response.Body = io.NopCloser(bytes.NewReader(text))
				c.refused = append(c.refused, fmt.Sprintf("%s %s: %s", request.Method, request.URL.Path, text))
			}
		}
		return response, err
	})
}

func (c *tally) take() map[int]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := c.by
	c.by = map[int]int{}
	return by
}

// A peer with many exports delays nothing: existing names stay up to date, and each new name takes
// five writes (its import, the derived Service, a slice, the ips, the status). The API server
// refuses none of them.
func TestPeerWithManyExports(t *testing.T) {
	const names = 200
	ctx := context.WithoutCancel(t.Context())
	set := pair.start(t)
	counted := &tally{by: map[int]int{}}
	account := set[1].Account
	t.Cleanup(func() { set[1].Account = account })
	set[1].Account = rest.CopyConfig(account)
	set[1].Account.Wrap(counted.wrap)
	if err := set[1].Leave(ctx, "c1"); err != nil {
		t.Fatal(err)
	}
	s := newStage(t, set, 0, 1)
	for _, c := range set {
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	s.export(1, service("foo"), "10.9.2.1")
	var wg sync.WaitGroup
	for part := range slices.Chunk(numbered(names), names/8) {
		wg.Go(func() {
			for _, name := range part {
				s.export(0, service(name), "10.9.1.1")
			}
		})
	}
	wg.Wait()
	s.until("c1 has all", func() error { return s.want(0, names+1) }) // and foo of c2
	s.until("c2 has its own", func() error { return s.imported(1, "foo", []string{"c2"}, "10.9.2.1") })
	counted.take()

	if err := set[1].Join(ctx, "c1", set[0].ReaderKubeconfig); err != nil {
		t.Fatal(err)
	}
	s.until("the sync begins", func() error { return s.want(1, 5) })
	edit(s, 1, new(discoveryv1.EndpointSlice), "foo-abc", func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Addresses = []string{"10.9.2.2"} })
	before := s.ready(1)
	s.until("foo is up to date", func() error { return s.imported(1, "foo", []string{"c2"}, "10.9.2.2") })
	if after := s.ready(1); after-before > (names+1-before)/2 {
		t.Errorf("foo waited until %d of %d names were ready, from %d", after, names+1, before)
	}
	s.until("c2 has all", func() error { return s.want(1, names+1) })
	writes := counted.take()
	if total := writes[http.StatusOK] + writes[http.StatusCreated]; total != 5*names+1 || len(writes) > 2 {
		t.Errorf("%d names and one change of foo's endpoint took these writes: %v; want %d, none refused\n%s",
			names, writes, 5*names+1, strings.Join(counted.refused, "\n"))
	}
}

func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("many-%d", i))
	}
	return names
}

// ready counts the imports that are.
func (s *stage) ready(in int) (ready int) {
	s.Helper()
	var all mcsv1beta1.ServiceImportList
	if err := s.set[in].Admin.List(s.Context(), &all, client.InNamespace(s.namespace)); err != nil {
		s.Fatal(err)
	}
	for i := range all.Items {
		if meta.IsStatusConditionTrue(all.Items[i].Status.Conditions, "Ready") {
			ready++
		}
	}
	return ready
}

func (s *stage) want(in, names int) error {
	if ready := s.ready(in); ready < names {
		return fmt.Errorf("%s has %d of %d names", s.set[in].ID, ready, names)
	}
	return nil
}

// A webhook for EndpointSlices that is down keeps no address back: the import's ips heal meanwhile, and its slices do afterwards.
func TestSlicesThatCannotBeWritten(t *testing.T) {
	s := newStage(t, three.start(t))
	s.export(0, service("foo"), "10.9.1.1")
	s.until("imported", func() error { return s.imported(1, "foo", []string{"c1"}, "10.9.1.1") })
	hook := fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
  - name: down.example.org
    failurePolicy: Fail
    sideEffects: None
    timeoutSeconds: 1
    admissionReviewVersions: [v1]
    clientConfig: {url: "https://127.0.0.1:1/"}
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    rules: [{apiGroups: [discovery.k8s.io], apiVersions: [v1], resources: [endpointslices], operations: [CREATE, UPDATE]}]
`, s.namespace)
	if err := s.set[1].Apply(t.Context(), "", hook); err != nil {
		t.Fatal(err)
	}
	remove := func() error { return s.set[1].Delete(context.WithoutCancel(t.Context()), "", hook) }
	t.Cleanup(func() { _ = remove() }) // for when the test fails before
	probe := endpointsOf(service("probe"), "", "10.9.1.1")
	probe.Namespace = s.namespace
	s.until("the webhook refuses", func() error {
		if err := s.set[1].Admin.Create(t.Context(), probe.DeepCopy(), client.DryRunAll); err == nil {
			return errors.New("not yet")
		}
		return nil
	})
	edit(s, 0, new(discoveryv1.EndpointSlice), "foo-abc", func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Addresses = []string{"10.9.1.2"} })
	s.until("c1 has the change", func() error { return s.imported(0, "foo", []string{"c1"}, "10.9.1.2") })
	edit(s, 1, new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) { imp.Spec.IPs = nil })
	s.until("the ips heal, and the slice is as it was", func() error { return s.imported(1, "foo", []string{"c1"}, "10.9.1.1") })
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	s.until("the slice follows", func() error { return s.imported(1, "foo", []string{"c1"}, "10.9.1.2") })
}
