package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

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
	Problem(kind, object string, p Problem) // once for each problem of an object
	Failed(resource string, err error)      // a list or watch failed, and is tried again
	Recovered(resource string)              // and works again
	Absent(resource string)                 // the server does not have it: there are none, for now
	Published(services, endpoints int)      // there is a new Index
	// Programmed tells of each object that came since the last Index, how long its change took until it was answered.
	Programmed(kind string, took time.Duration)
}

// Watch keeps an Index equal to what an API server holds.
type Watch struct {
	hub       *hub
	followers []*follower
}

// New prepares a Watch. It makes no request yet; the error is that of a client configuration or selector that cannot work.
func New(config *rest.Config, o Options, observer Observer) (*Watch, error) {
	w := &Watch{hub: newHub(observer)}
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	namespaces := o.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		resources := []resource{{mcsv1beta1.ServiceImportPluralName, o.Labels, &mcsv1beta1.ServiceImport{}, newStore(importKind, namespace, w.hub), importVersions}}
		if !o.NoEndpoints {
			resources = append(resources, resource{"endpointslices", mcsv1beta1.LabelServiceName, &discoveryv1.EndpointSlice{},
				newStore(sliceKind, namespace, w.hub), []schema.GroupVersion{discoveryv1.SchemeGroupVersion}})
		}
		for _, r := range resources {
			f := &follower{resource: r, finder: finder, observer: observer}
			for _, gv := range r.versions {
				client, err := restClient(config, gv)
				if err != nil {
					return nil, fmt.Errorf("client of %s: %w", gv, err)
				}
				f.reflectors = append(f.reflectors, f.reflector(client, namespace))
			}
			w.followers = append(w.followers, f)
		}
	}
	w.hub.unsynced = len(w.followers)
	return w, nil
}

// Run watches until ctx ends, and returns when all that it started has ended.
func (w *Watch) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, f := range w.followers {
		wg.Go(func() { f.follow(ctx) })
	}
	w.hub.publish(ctx)
}

// Index is the newest Index, or nil before the first sync of every resource.
func (w *Watch) Index() *index.Index { return w.hub.published.Load() }

// Synced is closed when there is an Index.
func (w *Watch) Synced() <-chan struct{} { return w.hub.synced }

// resource is what one follower follows.
type resource struct {
	name     string
	selector string // of labels
	object   any    // of the type that it decodes to
	store    cache.ReflectorStore
	versions []schema.GroupVersion // the best first
}

// follower keeps one store equal to one resource of one namespace.
type follower struct {
	resource
	finder     discovery.DiscoveryInterface
	observer   Observer
	reflectors []*cache.Reflector // one for each version

	failed bool // and the observer was told
	absent bool // likewise
}

// Waits between two tries. A resource that the server does not have is looked for at a steady pace, so that a CRD that comes later
// is served soon.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = 5 * time.Second
	absentPoll = 2 * time.Second
)

func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: retryFirst, Factor: 2, Jitter: 0.2, Steps: 30, Cap: retryMost}
}

// reflector lists and watches one version. Each request's outcome goes to the observer.
func (f *follower) reflector(client cache.Getter, namespace string) *cache.Reflector {
	lw := cache.NewFilteredListWatchFromClient(client, f.name, namespace, func(o *metav1.ListOptions) { o.LabelSelector = f.selector })
	told := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := lw.ListWithContext(ctx, o)
			f.reportRequest(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := lw.WatchWithContext(ctx, o)
			if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) { // else a server that cannot stream a list: it is asked for one
				f.reportRequest(ctx, err)
			}
			return w, err
		},
	}
	quiet := logr.Discard()
	return cache.NewReflectorWithOptions(told, f.object, f.store,
		cache.ReflectorOptions{Name: "multicluster", TypeDescription: f.name, Backoff: newBackoff(), Logger: &quiet})
}

// follow lists and watches until ctx ends. A watch that ends is begun anew, where it ended; one that the server does not know
// leads to the version that it does know.
func (f *follower) follow(ctx context.Context) {
	ctx = klog.NewContext(ctx, logr.Discard()) // the observer says what a person needs
	backoff, version := newBackoff(), 0
	for ctx.Err() == nil {
		err := f.reflectors[version].ListAndWatchWithContext(ctx)
		pause := retryFirst // also after a watch that the server closed at once
		switch {
		case apierrors.IsNotFound(err):
			version, pause = f.find(ctx)
		case err != nil:
			pause = backoff.Step()
		default:
			backoff = newBackoff()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// find asks the server which version of the resource it has, and says when to try that one. Where the server is well and has none,
// there are no such objects: the store is emptied.
func (f *follower) find(ctx context.Context) (version int, pause time.Duration) {
	version, err := f.served()
	if err == nil {
		return version, retryFirst // and its list tells how it goes
	}
	if !errors.Is(err, errAbsent) {
		f.report(ctx, err)
		return version, retryMost
	}
	if (!f.absent || f.failed) && ctx.Err() == nil { // also at the end of an outage, so that the next is told of too
		f.absent, f.failed = true, false
		f.observer.Absent(f.name)
		_ = f.store.Replace(nil, "") // which has no error
	}
	return 0, absentPoll
}

var errAbsent = errors.New("the server does not have the resource")

// served is the best version of the resource that the server has, or errAbsent. One 404 is not proof enough of absence: the server
// also has to list its groups.
func (f *follower) served() (version int, err error) {
	for i, gv := range f.versions {
		list, err := f.finder.ServerResourcesForGroupVersion(gv.String())
		if err != nil && !apierrors.IsNotFound(err) {
			return i, err
		}
		if err == nil && hasResource(list, f.name) {
			return i, nil
		}
	}
	groups, err := f.finder.ServerGroups()
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name != "" }) {
		return 0, errors.New("the server lists no API groups") // the client takes a refused list for an empty one
	}
	return 0, errAbsent
}

func hasResource(list *metav1.APIResourceList, name string) bool {
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
}

// reportRequest reports a list or watch. That the server does not have the resource is no failure yet: find looks into it.
func (f *follower) reportRequest(ctx context.Context, err error) {
	if !apierrors.IsNotFound(err) {
		f.report(ctx, err)
	}
}

// report tells the observer of the first of several failures, and of their end.
func (f *follower) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil && !f.failed:
		f.failed = true
		f.observer.Failed(f.name, err)
	case err == nil:
		if f.failed || f.absent {
			f.observer.Recovered(f.name)
		}
		f.failed, f.absent = false, false
	}
}
