package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/internal/lenient"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// hostile returns a connection to a server with arbitrary answers.
func hostile(t *testing.T, answer http.HandlerFunc) *connection {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	text, err := clientcmd.Write(api.Config{
		Clusters: map[string]*api.Cluster{"c": {Server: server.URL}}, AuthInfos: map[string]*api.AuthInfo{"u": {Token: "the-token"}},
		Contexts: map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &Registry{options: Options{Now: time.Now}, probeEvery: time.Hour}
	to, err := readTarget(text, "")
	if err != nil {
		t.Fatal(err)
	}
	l, err := newConnection(&peer{registry: s, id: "east", wake: make(chan struct{}, 1)}, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.transport.close)
	return l
}

// With a redirect a peer could choose which addresses this cluster's controller contacts, and the
// Lease would show the answer.
func TestRedirectsOfAPeerAreNotFollowed(t *testing.T) {
	var followed atomic.Int32
	internal := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(internal.Close)
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect} {
		l := hostile(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, internal.URL+"/latest/meta-data", code)
		})
		err := l.question().Do(t.Context()).Error()
		if reason, message := classify(l.host, err); !errors.Is(err, errRedirect) || reason != Unreachable || !strings.Contains(message, "redirects") {
			t.Errorf("%d: %s %s", code, reason, message)
		}
		finder, err := discovery.NewDiscoveryClientForConfigAndClient(&rest.Config{Host: l.host}, l.transport.client)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := finder.ServerGroups(); !errors.Is(err, errRedirect) {
			t.Errorf("%d: discovery gives %v", code, err)
		}
	}
	if n := followed.Load(); n > 0 {
		t.Errorf("%d requests went where a peer's server pointed", n)
	}
}

// endless writes a text and then zeros until the reader stops. It returns the number of zeros.
func endless(w io.Writer, begin string) (sent int) {
	_, _ = io.WriteString(w, begin)
	zeros := bytes.Repeat([]byte("0"), 1<<20)
	for sent < 4*maxAnswer { // otherwise a bug would exhaust the test's memory
		n, err := w.Write(zeros)
		sent += n
		if err != nil {
			break
		}
	}
	return sent
}

// An endless answer must not exhaust the controller's memory.
func TestListsOfAPeerAreBounded(t *testing.T) {
	sent := make(chan int, 10)
	l := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		sent <- endless(w, `{"kind": "ServiceExportList", "apiVersion": "multicluster.x-k8s.io/v1beta1", "metadata": {"resourceVersion": "`)
	})
	err := l.question().Do(t.Context()).Error()
	if reason, message := classify(l.host, err); reason != TooLarge || !strings.Contains(message, "64 MiB") {
		t.Errorf("an endless list: %s %s", reason, message)
	}
	if n := <-sent; n > 2*maxAnswer {
		t.Errorf("the server could send %d MiB", n>>20)
	}
}

// An endless list of small pages must not exhaust it either.
func TestListsOfAPeerHaveOnePage(t *testing.T) {
	var pages atomic.Int32
	l := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch query := r.URL.Query(); {
		case query.Has("watch"):
			w.WriteHeader(http.StatusUnprocessableEntity) // like a server that cannot stream lists
		default:
			if query.Has("continue") {
				pages.Add(1)
			}
			_, _ = io.WriteString(w, `{"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": {"resourceVersion": "1", "continue": "more"}, "items": []}`)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { l.followers[ofSlices].Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	kube.Eventually(t, "the list is refused", func() error {
		l.peer.registry.mu.RLock()
		defer l.peer.registry.mu.RUnlock()
		if reason, message := classify(l.host, l.listing[ofSlices]); reason != TooLarge {
			return fmt.Errorf("it is %s: %s", reason, message)
		}
		return nil
	})
	if n := pages.Load(); n > 0 {
		t.Errorf("%d more pages were asked for", n)
	}
}

// One event of a watch must not exhaust it either. client-go limits protobuf events itself.
func TestEventsOfAPeerAreBounded(t *testing.T) {
	for _, test := range []struct {
		name, kind, begin string
		resource          int
	}{
		{"JSON", "application/json", `{"type": "ADDED", "object": {"kind": "`, ofExports},
		{"JSON after line breaks", "application/json", "\n \r\n" + `{"type": "ADDED", "object": {"kind": "`, ofExports},
		{"JSON of a built-in kind", "application/json", `{"type": "ADDED", "object": {"kind": "`, ofSlices},
		{"protobuf", "application/vnd.kubernetes.protobuf;stream=watch", "\x7f\xff\xff\xff", ofSlices},
	} {
		t.Run(test.name, func(t *testing.T) {
			sent := make(chan int, 1)
			l := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.kind)
				w.WriteHeader(http.StatusOK)
				sent <- endless(w, test.begin)
			})
			w, err := l.clients[test.resource][0].Client.Get().Resource("any").VersionedParams(&metav1.ListOptions{Watch: true}, metav1.ParameterCodec).Watch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for event := range w.ResultChan() {
				if event.Type != watch.Error {
					t.Errorf("the event is %+v", event)
				}
				w.Stop()
			}
			if n := <-sent; n > 4*maxEvent {
				t.Errorf("the server could send %d MiB", n>>20)
			}
		})
	}
}

// Empty lines between events count like an event.
func TestEmptyLinesOfAPeerAreBounded(t *testing.T) {
	framer := boundedSerializer{lenient.Serializer[serviceExport]("ServiceExport"), newBudget()}.SupportedMediaTypes()[0].StreamSerializer.Framer
	lines := strings.NewReader(strings.Repeat("\n", 2*maxEvent))
	if _, err := framer.NewFrameReader(io.NopCloser(lines)).Read(make([]byte, 1024)); !errors.Is(err, errLargeEvent) {
		t.Errorf("got %v, want %v", err, errLargeEvent)
	}
}

// The number of small events has no limit.
func TestAWatchOfAPeerHasNoEnd(t *testing.T) {
	const events = 3
	value := strings.Repeat("v", maxEvent/2)
	l := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range events {
			_, _ = fmt.Fprintf(w, `{"type": "ADDED", "object": {"kind": "ServiceExport", "apiVersion": "multicluster.x-k8s.io/v1beta1", "metadata": {"name": "a"}, "spec": {"exportedAnnotations": {"a": %q}}}}`+"\n", value)
		}
	})
	w, err := l.clients[ofExports][0].Client.Get().Resource("any").VersionedParams(&metav1.ListOptions{Watch: true}, metav1.ParameterCodec).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for event := range w.ResultChan() {
		if export, ok := event.Object.(*serviceExport); ok && len(export.Spec.ExportedAnnotations["a"]) == len(value) {
			got++
		}
	}
	if got != events {
		t.Errorf("%d events of %d", got, events)
	}
}

// Text from a peer's server is one short line in the Lease, the event and the log.
func TestTextsOfAPeerAreHarmless(t *testing.T) {
	for _, test := range []struct{ name, message, want string }{
		{"ordinary words", "https://10.0.0.1: connection refused, «why»", "https://10.0.0.1: connection refused, «why»"},
		{"lines and escapes", "a\nlevel=ERROR\x1b[2J\tb\u202ec", "a level=ERROR [2J b c"},
		{"invalid UTF-8", "a\xff\xfeb", "a  b"},
		{"long", strings.Repeat("x", 2000), strings.Repeat("x", maxMessage-3) + "..."},
		{"long, with no place to cut", strings.Repeat("\x80", 2000), "..."},
	} {
		got := harmless(test.message)
		if got != test.want || len(got) > maxMessage || !utf8.ValidString(got) {
			t.Errorf("%s: %q; want %q", test.name, got, test.want)
		}
	}
	l := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": "%s"}`, strings.Repeat(`\u001b]0;x\u0007\r\n`, 10000))
	})
	l.probe(t.Context())
	l.peer.connection = l
	l.peer.evaluate()
	if now := l.peer.condition; now.reason != Unreachable || now.message != harmless(now.message) {
		t.Errorf("the condition is %+v", now)
	}
}

// The names of slices distinguish Services and clusters only if no Service has a dot in its name.
func TestInvalidNamesFromAPeerAreLeftOut(t *testing.T) {
	h := newHeard()
	for _, name := range []string{"foo.eu", "Foo", "foo/eu", strings.Repeat("a", 64), ""} {
		for _, err := range []error{
			h.exports.Add(exportOf(name)), h.slices.Add(describing(sliceOf("foo-1", name, "10.0.0.1"), 80)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	elsewhere := exportOf("foo")
	elsewhere.Namespace = "demo.eu"
	if err := h.exports.Replace([]any{elsewhere, exportOf("foo.eu"), exportOf("good")}, "1"); err != nil {
		t.Fatal(err)
	}
	if got := h.changes(); !slices.Equal(got, []string{"good"}) || len(h.contents.slices.services) > 0 {
		t.Errorf("told of %q", got)
	}
	// A slice whose label changes to such a name no longer belongs to its Service.
	var kept []*discoveryv1.EndpointSlice
	for _, service := range []string{"good", "good.eu"} {
		if err := h.slices.Add(sliceOf("s", service, "10.0.0.1")); err != nil {
			t.Fatal(err)
		}
		kept = h.contents.slices.byService[exportedService(sliceOf("s", "good"))]
	}
	if len(kept) > 0 {
		t.Errorf("slices %v are kept", kept)
	}
}
