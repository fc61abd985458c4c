package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/reflector"
)

// Options selects what to watch.
type Options struct {
	Namespaces  []string // empty: all
	Labels      string   // a selector of ServiceImports; "": all
	NoEndpoints bool     // do not watch EndpointSlices
}

// Observer receives events that an operator wants to see.
type Observer interface {
	// Problems reports all problems of an object, each time they change. There are at most nine.
	// again is true if the object had other problems less than a minute ago, so that a log can skip
	// it.
	Problems(kind, object string, all []Problem, again bool)
	Failed(resource string, err error) // a list or watch failed, and is repeated
	Recovered(resource string)         // list and watch work again
	Absent(resource string)            // the server does not have the resource: for now there are no such objects
	// Published reports a new View, and whether every resource has synced.
	Published(services, endpoints int, whole bool)
	// Programmed reports, for each object that arrived since the last Index, the time from its
	// change to its answer.
	Programmed(kind string, took time.Duration)
}

// Watch keeps an Index equal to the content of an API server.
type Watch struct {
	publisher *publisher
	followers []*reflector.Follower
	reporters []*reporter // one for each follower; those of one resource follow one another

	// of the API server
	config *rest.Config
	client *http.Client
}

// New prepares a Watch. It sends no request. The error is that of an invalid client configuration
// or selector.
func New(config *rest.Config, o Options, observer Observer) (*Watch, error) {
	config = reflector.DetectDeadConnections(config)
	// The API server is near: compression costs it processor time and saves nothing.
	config.DisableCompression = true
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	w := &Watch{publisher: newPublisher(observer), config: config, client: client}
	namespaces := o.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		if err := w.add(reflector.NewStore(newSink(importKind, namespace, w.publisher)), reflector.Resource{
			Name: mcsv1beta1.ServiceImportPluralName, Namespace: namespace, Labels: o.Labels, Object: &serviceImport{},
		}, mcs.Versions...); err != nil {
			return nil, err
		}
	}
	if o.NoEndpoints {
		return w, nil
	}
	for _, namespace := range namespaces {
		if err := w.add(reflector.NewStore(newSink(sliceKind, namespace, w.publisher)), reflector.Resource{
			Name: "endpointslices", Namespace: namespace, Labels: mcsv1beta1.LabelServiceName, Object: &discoveryv1.EndpointSlice{},
		}, discoveryv1.SchemeGroupVersion); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// add watches a resource, in the first of its versions that the server has.
func (w *Watch) add(to cache.ReflectorStore, r reflector.Resource, versions ...schema.GroupVersion) error {
	told := &reporter{resource: r.Name, title: r.Name, store: to, observer: w.publisher.observer}
	if r.Namespace != "" {
		told.title += " in namespace " + r.Namespace
	}
	over := told.contact.noting(w.client)
	for _, gv := range versions {
		client, err := restClient(w.config, over, gv)
		if err != nil {
			return fmt.Errorf("client of %s: %w", gv, err)
		}
		r.Versions = append(r.Versions, reflector.Version{GroupVersion: gv, Client: client})
	}
	w.followers = append(w.followers, reflector.New(r, to, told.report))
	w.reporters = append(w.reporters, told)
	return nil
}

// Run watches until ctx ends. It returns when everything that it started has ended.
func (w *Watch) Run(ctx context.Context) {
	defer utilnet.CloseIdleConnectionsFor(w.client.Transport)
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, f := range w.followers {
		wg.Go(func() { f.Run(ctx) })
	}
	w.publisher.publish(ctx)
}

// View returns the newest View, or nil before the first sync of the ServiceImports of any namespace.
func (w *Watch) View() *View { return w.publisher.published.Load() }

// After returns a channel that is closed when there is another View, with a serial above that of a View of another Watch.
func (w *Watch) After(other *View) <-chan struct{} { return w.publisher.after(other) }

// Synced returns a channel that is closed when every resource has synced.
func (w *Watch) Synced() <-chan struct{} { return w.publisher.synced }

// reporter reports the first of several failures of one resource to an observer, and their end. A
// recovery needs a complete list and a watch: otherwise a list that fails beside a watch that is
// accepted would be reported as failed and recovered at each retry.
type reporter struct {
	resource string
	title    string // for the log
	store    cache.ReflectorStore
	observer Observer

	trouble reflector.Trouble
	listed  bool // a list was complete since the resource was absent
	failed  bool // and it was reported
	absent  bool // and it was reported

	up      atomic.Bool
	contact contact
}

// report is a reflector.Report. If the server works and does not have the resource, there are no
// such objects: the store is emptied.
func (r *reporter) report(verb reflector.Verb, err error) {
	r.listed = verb == reflector.List && err == nil || r.listed && !errors.Is(err, reflector.ErrAbsent)
	err = r.trouble.Note(verb, err)
	r.up.Store(err == nil && r.listed)
	switch {
	case errors.Is(err, reflector.ErrAbsent):
		if !r.absent || r.failed { // also at the end of an outage, so that the next outage is reported too
			r.absent, r.failed = true, false
			r.observer.Absent(r.title)
			_ = r.store.Replace(nil, "") // an absent resource causes no error
		}
	case err != nil && !r.failed:
		r.failed = true
		r.observer.Failed(r.title, err)
	case err == nil:
		if r.failed || r.absent {
			r.observer.Recovered(r.title)
		}
		r.failed, r.absent = false, false
	}
}
