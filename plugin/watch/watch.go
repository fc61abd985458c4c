package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/reflector"
	"github.com/clusterset-dns/multicluster/plugin/index"
)

// Options say what to watch.
type Options struct {
	Namespaces  []string // none: all
	Labels      string   // a selector of ServiceImports; "": all
	NoEndpoints bool     // no EndpointSlices
}

// Observer hears what a person should know.
type Observer interface {
	// Problems tells of all problems of an object, each time that they are others than before. There are at most nine. again says
	// that the object had others less than a minute ago, which is enough for a log.
	Problems(kind, object string, all []Problem, again bool)
	Failed(resource string, err error) // a list or watch failed, and is tried again
	Recovered(resource string)         // both work again
	Absent(resource string)            // the server does not have it: there are none, for now
	// Published tells of a new View, and whether every resource has synced.
	Published(services, endpoints int, whole bool)
	// Programmed tells of each object that came since the last Index, how long its change took until it was answered.
	Programmed(kind string, took time.Duration)
}

// Watch keeps an Index equal to what an API server holds.
type Watch struct {
	publisher *publisher
	followers []*reflector.Follower

	// of the API server
	config *rest.Config
	client *http.Client
	finder discovery.DiscoveryInterface
}

// New prepares a Watch. It makes no request yet; the error is that of a client configuration or selector that cannot work.
func New(config *rest.Config, o Options, observer Observer) (*Watch, error) {
	config = reflector.DetectDeadConnections(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	finder, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	w := &Watch{publisher: newPublisher(observer), config: config, client: client, finder: finder}
	namespaces := o.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		err := w.add(reflector.NewStore(newSink(importKind, namespace, w.publisher)), reflector.Resource{
			Name: mcsv1beta1.ServiceImportPluralName, Namespace: namespace, Labels: o.Labels, Object: &serviceImport{},
		}, mcs.Versions...)
		if err == nil && !o.NoEndpoints {
			err = w.add(reflector.NewStore(newSink(sliceKind, namespace, w.publisher)), reflector.Resource{
				Name: "endpointslices", Namespace: namespace, Labels: mcsv1beta1.LabelServiceName, Object: &discoveryv1.EndpointSlice{},
			}, discoveryv1.SchemeGroupVersion)
		}
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

// add has one resource followed, the best of its versions first.
func (w *Watch) add(to cache.ReflectorStore, r reflector.Resource, versions ...schema.GroupVersion) error {
	for _, gv := range versions {
		client, err := restClient(w.config, w.client, gv)
		if err != nil {
			return fmt.Errorf("client of %s: %w", gv, err)
		}
		r.Versions = append(r.Versions, reflector.Version{GroupVersion: gv, Client: client})
	}
	told := &reporter{resource: r.Name, store: to, observer: w.publisher.observer}
	w.followers = append(w.followers, reflector.New(r, w.finder, to, told.report))
	return nil
}

// Run watches until ctx ends, and returns when all that it started has ended.
func (w *Watch) Run(ctx context.Context) {
	defer utilnet.CloseIdleConnectionsFor(w.client.Transport)
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, f := range w.followers {
		wg.Go(func() { f.Run(ctx) })
	}
	w.publisher.publish(ctx)
}

// View is the newest View, or nil before the first sync of the ServiceImports.
func (w *Watch) View() *View { return w.publisher.published.Load() }

// Index is the newest Index, or nil before the first sync of every resource.
func (w *Watch) Index() *index.Index {
	v := w.View()
	if v == nil || !v.whole {
		return nil
	}
	return v.Index
}

// Synced is closed when every resource has synced.
func (w *Watch) Synced() <-chan struct{} { return w.publisher.synced }

// reporter tells an observer of the first of several failures of one resource, and of their end. A recovery is a complete list with a
// watch: else a list that fails beside a watch that is accepted would be told of as failed and as recovered at each retry.
type reporter struct {
	resource string
	store    cache.ReflectorStore
	observer Observer

	trouble reflector.Trouble
	failed  bool // and the observer was told
	absent  bool // likewise
}

// report is a reflector.Report. Where the server is well and does not have the resource, there are no such objects: the store is emptied.
func (r *reporter) report(verb reflector.Verb, err error) {
	switch err = r.trouble.Note(verb, err); {
	case errors.Is(err, reflector.ErrAbsent):
		if !r.absent || r.failed { // also at the end of an outage, so that the next is told of too
			r.absent, r.failed = true, false
			r.observer.Absent(r.resource)
			_ = r.store.Replace(nil, "") // which has no error
		}
	case err != nil && !r.failed:
		r.failed = true
		r.observer.Failed(r.resource, err)
	case err == nil:
		if r.failed || r.absent {
			r.observer.Recovered(r.resource)
		}
		r.failed, r.absent = false, false
	}
}
