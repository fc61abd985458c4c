package reflector

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// TestRunEndsAtOnceWithoutAListener checks that Run ends at once. A reflector alone first waits
// for its next try, five seconds after a longer outage.
func TestRunEndsAtOnceWithoutAListener(t *testing.T) {
	t.Parallel() // it waits
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: "http://" + listener.Addr().String(), APIPath: "/api", ContentConfig: rest.ContentConfig{
		GroupVersion: &corev1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	failures, enough := 0, make(chan struct{})
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	follower := New(Resource{Name: "services", Object: &corev1.Service{}, Versions: []Version{{corev1.SchemeGroupVersion, client}}},
		store, func(_ Verb, err error) {
			if err == nil || errors.Is(err, ErrAbsent) {
				t.Errorf("told %v of a server that is not there", err)
			}
			if failures++; failures == 8 { // the pause is then most of a second
				close(enough)
			}
		})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { follower.Run(ctx); close(ended) }()
	<-enough
	cancel()
	select {
	case <-ended:
	case <-time.After(500 * time.Millisecond):
		t.Error("still running half a second after its end")
		<-ended
	}
}

// TestA404OfWhatDiscoveryHas checks that it is reported, and that its end is. The store keeps what it has, and the server is not asked
// without a pause.
func TestA404OfWhatDiscoveryHas(t *testing.T) {
	t.Parallel() // it waits
	const list = `{"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "foo", "namespace": "default"}}]}`
	var away atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/api/v1":
			_, _ = io.WriteString(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [{"name": "services", "kind": "Service", "namespaced": true}]}`)
		case away.Load():
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity) // a server that cannot stream lists
		case r.URL.Query().Get("watch") != "":
			for !away.Load() {
				select {
				case <-r.Context().Done():
					return
				case <-time.After(time.Millisecond):
				}
			}
		default:
			_, _ = io.WriteString(w, list)
		}
	}))
	t.Cleanup(server.Close)
	client, err := rest.RESTClientFor(&rest.Config{Host: server.URL, APIPath: "/api", QPS: -1, ContentConfig: rest.ContentConfig{
		GroupVersion: &corev1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	store, reports := cache.NewStore(cache.MetaNamespaceKeyFunc), make(chan error, 1024)
	follower := New(Resource{Name: "services", Object: &corev1.Service{}, Versions: []Version{{corev1.SchemeGroupVersion, client}}},
		store, func(verb Verb, err error) {
			if verb == List {
				reports <- err
			}
		})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { follower.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	next := func() error {
		select {
		case err := <-reports:
			return err
		case <-time.After(time.Minute):
			t.Fatal("nothing is told")
			return nil
		}
	}
	for range 2 {
		if err := next(); err != nil {
			t.Fatalf("told %v of a list", err)
		}
		away.Store(true)
		for range 3 {
			if err := next(); !apierrors.IsNotFound(err) || errors.Is(err, ErrAbsent) {
				t.Errorf("told %v of a 404", err)
			}
		}
		if _, has, _ := store.GetByKey("default/foo"); !has {
			t.Error("the store has lost an object")
		}
		away.Store(false)
		for next() != nil {
		}
		reports <- nil // for the next round
	}
}
