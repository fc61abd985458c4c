package reflector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const oneService = `{"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"namespace": "ns", "name": "foo"}}]}`

// followServer returns a Follower of the Services of a server over HTTP/1.1, with its store.
func followServer(t *testing.T, handler http.HandlerFunc, report Report) (*Follower, cache.Store, *rest.RESTClient) {
	t.Helper()
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	f, client := followInto(t, store, handler, report)
	return f, store, client
}

func followInto(t *testing.T, store cache.ReflectorStore, handler http.HandlerFunc, report Report) (*Follower, *rest.RESTClient) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	client, err := rest.RESTClientFor(&rest.Config{Host: server.URL, APIPath: "/api", ContentConfig: rest.ContentConfig{
		GroupVersion: &corev1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	resource := Resource{Name: "services", Object: &corev1.Service{}, Versions: []Version{{corev1.SchemeGroupVersion, client}}}
	return New(resource, store, report), client
}

// run runs a Follower until the end of the test.
func run(t *testing.T, f *Follower) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { f.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
}

func answer(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprint(w, text)
	w.(http.Flusher).Flush()
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// A server, or a proxy before it, accepts a request and never answers. Over HTTP/1.1 no lower layer
// detects this.
func TestHangingRequestsEndAtTheirDeadline(t *testing.T) {
	t.Parallel() // it waits
	for name, hangs := range map[string]func(r *http.Request) bool{
		"a streamed list": func(r *http.Request) bool { return r.URL.Query().Get("sendInitialEvents") == "true" },
		"a list":          func(r *http.Request) bool { return !isWatch(r) },
	} {
		t.Run(name, func(t *testing.T) {
			var hung atomic.Bool
			complete := make(chan struct{})
			done := sync.OnceFunc(func() { close(complete) })
			f, store, _ := followServer(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case hangs(r) && hung.CompareAndSwap(false, true):
					answer(w, "") // sends at least the header
					<-r.Context().Done()
				case r.URL.Query().Get("sendInitialEvents") == "true":
					// This is the answer of a server that cannot stream lists.
					w.WriteHeader(http.StatusUnprocessableEntity)
				case isWatch(r):
					answer(w, "")
					<-r.Context().Done()
				default:
					answer(w, oneService)
				}
			}, func(verb Verb, err error) {
				if verb == List && err == nil {
					done()
				}
			})
			f.limits.list = 200 * time.Millisecond
			run(t, f)
			select {
			case <-complete:
			case <-time.After(time.Minute):
				t.Fatal("it still hangs")
			}
			if !hung.Load() || len(store.List()) != 1 {
				t.Errorf("hung: %v; the store has %v", hung.Load(), store.List())
			}
		})
	}
}

func TestAWatchEndsAfterItsTimeoutAndSomeGrace(t *testing.T) {
	t.Parallel() // it waits
	f, _, client := followServer(t, func(w http.ResponseWriter, r *http.Request) {
		answer(w, "")
		<-r.Context().Done()
	}, func(Verb, error) {})
	f.limits.grace = 100 * time.Millisecond
	seconds := int64(1)
	began := time.Now()
	w, err := f.watch(t.Context(), cache.NewFilteredListWatchFromClient(client, "services", "", func(*metav1.ListOptions) {}), metav1.ListOptions{TimeoutSeconds: &seconds})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	select {
	case event, open := <-w.ResultChan():
		if took := time.Since(began); open || took < time.Second {
			t.Errorf("after %v: %v, open: %v", took, event, open)
		}
	case <-time.After(time.Minute):
		t.Error("it still hangs")
	}
}

// A hostile server sends pages without end. Each has the maximum size of an answer, and all are in
// memory until the last page.
func TestCompleteListHasNoPages(t *testing.T) {
	page := `{"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1", "continue": "more"}, "items": [{"metadata": {"namespace": "ns", "name": "foo"}}]}`
	var pages, limited atomic.Int32
	refused := make(chan error, 100)
	f, store, _ := followServer(t, func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if limit := query.Get("limit"); limit != "" && limit != "1" { // one object is the question for the version
			limited.Add(1)
		}
		switch {
		case query.Get("continue") != "":
			pages.Add(1)
			answer(w, page)
		case isWatch(r):
			w.WriteHeader(http.StatusUnprocessableEntity) // like a server that cannot stream lists
		default:
			answer(w, page)
		}
	}, func(verb Verb, err error) {
		if verb == List {
			refused <- err
		}
	})
	f.resource.Whole = true
	run(t, f)
	for range 3 { // It is tried again.
		select {
		case err := <-refused:
			if !errors.Is(err, ErrPaged) {
				t.Errorf("the list is reported with %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("no list is reported")
		}
	}
	if pages.Load() > 0 || limited.Load() > 0 || len(store.List()) > 0 {
		t.Errorf("%d pages were asked for, %d requests had a limit, and the store has %v", pages.Load(), limited.Load(), store.List())
	}
}

// A list is reported as complete when the store has it. A streamed list has no other sign of this.
func TestAListIsReportedWhenTheStoreHasIt(t *testing.T) {
	for name, streams := range map[string]bool{"streamed": true, "asked for": false} {
		t.Run(name, func(t *testing.T) {
			var store cache.Store
			listed := make(chan int, 10)
			f, store, _ := followServer(t, func(w http.ResponseWriter, r *http.Request) {
				switch initial := r.URL.Query().Get("sendInitialEvents") == "true"; {
				case initial && !streams:
					w.WriteHeader(http.StatusUnprocessableEntity)
				case initial:
					answer(w, `{"type": "ADDED", "object": {"kind": "Service", "apiVersion": "v1", "metadata": {"namespace": "ns", "name": "foo"}}}
{"type": "BOOKMARK", "object": {"kind": "Service", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}}}}
`)
					<-r.Context().Done()
				case isWatch(r):
					answer(w, "")
					<-r.Context().Done()
				default:
					answer(w, oneService)
				}
			}, func(verb Verb, err error) {
				if verb == List && err == nil {
					listed <- len(store.List())
				}
			})
			run(t, f)
			select {
			case n := <-listed:
				if n != 1 {
					t.Errorf("the store had %d objects", n)
				}
			case <-time.After(time.Minute):
				t.Error("no list was reported")
			}
		})
	}
}

func TestTroubleEndsWhenBothWork(t *testing.T) {
	var trouble Trouble
	list, watch := errors.New("list"), errors.New("watch")
	for i, step := range []struct {
		verb      Verb
		err, want error
	}{
		{List, nil, nil}, {Watch, nil, nil}, {List, list, list}, {Watch, nil, list}, {Watch, watch, list}, {List, nil, watch}, {Watch, nil, nil},
		{Watch, watch, watch}, {List, ErrAbsent, ErrAbsent}, {List, nil, nil},
	} {
		if got := trouble.Note(step.verb, step.err); !errors.Is(got, step.want) || (got == nil) != (step.want == nil) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

func TestDetectDeadConnections(t *testing.T) {
	for name, config := range map[string]*rest.Config{
		"without TLS": {Host: "http://127.0.0.1:1"},
		"with TLS":    {Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
	} {
		own, err := rest.TransportFor(DetectDeadConnections(config))
		if err != nil {
			t.Fatal(err)
		}
		if transport := innermost(own); transport == nil || transport.HTTP2 == nil || transport.HTTP2.SendPingTimeout != pingAfter {
			t.Errorf("%s: no pings: %+v", name, transport)
		}
		shared, err := rest.TransportFor(config)
		if err != nil {
			t.Fatal(err)
		}
		if innermost(shared).HTTP2 != nil {
			t.Errorf("%s: the transport that others share is another now", name)
		}
	}
}

// client-go repeats a watch that gets no answer ten times, and then returns an empty one without an error.
func TestAWatchWithoutAnAnswerIsAFailure(t *testing.T) {
	t.Parallel() // it waits
	reported := make(chan error, 100)
	f, _, _ := followServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("sendInitialEvents") == "true":
			w.WriteHeader(http.StatusUnprocessableEntity) // like a server that cannot stream lists
		case isWatch(r):
			panic(http.ErrAbortHandler) // closes the connection
		default:
			answer(w, oneService)
		}
	}, func(verb Verb, err error) {
		if verb == Watch {
			reported <- err
		}
	})
	run(t, f)
	select {
	case err := <-reported:
		if err == nil {
			t.Error("a success is reported")
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing is reported")
	}
}

// Run can begin again before a list of the last Run has failed. That failure is not reported.
func TestAnEndedRunReportsNothing(t *testing.T) {
	reported := make(chan error, 100)
	f, _, client := followServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("sendInitialEvents") == "true":
			w.WriteHeader(http.StatusUnprocessableEntity) // like a server that cannot stream lists
		case isWatch(r):
			<-r.Context().Done()
		default:
			answer(w, oneService)
		}
	}, func(verb Verb, err error) {
		if verb == List {
			reported <- err
		}
	})
	run(t, f)
	if err := <-reported; err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	lists := cache.NewListWatchFromClient(client, "services", metav1.NamespaceAll, fields.Everything())
	if _, err := f.list(ended, lists, nil, metav1.ListOptions{Limit: pageSize}); err == nil {
		t.Fatal("the list succeeds")
	}
	select {
	case err := <-reported:
		t.Errorf("reported: %v", err)
	default:
	}
}
