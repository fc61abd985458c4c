package reflector

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// TestRunEndsAtOnceWithoutAListener checks that Run ends at once. A reflector alone first waits
// for its next try, five seconds after a longer outage.
func TestRunEndsAtOnceWithoutAListener(t *testing.T) {
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
		discovery.NewDiscoveryClient(client), store, func(_ Verb, err error) {
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
