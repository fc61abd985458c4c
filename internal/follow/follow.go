// Package follow keeps a store equal to one resource of an API server: it lists and watches, in whichever version the server has.
//
// Absent is not empty, and failed is neither. A list or watch that fails, for whatever reason, leaves the store as it is, and is tried
// again after at most five seconds. Where the server answers discovery and does not have the resource, that is reported as ErrAbsent,
// and the resource is looked for until it is there; what a store makes of it is up to who reads the report.
package follow

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Resource is what is followed.
type Resource struct {
	Name      string // plural, as in the URL
	Namespace string // "" for all
	Labels    string // a selector; "" for all
	Object    any    // of the type that it decodes to
	Versions  []Version
}

// Version is a version that the resource can be read in. The best is the first.
type Version struct {
	schema.GroupVersion
	Client cache.Getter
}

// Verb is what was asked of a server.
type Verb string

const (
	List  Verb = "list"
	Watch Verb = "watch"
)

// ErrAbsent is reported where a server that is well does not have the resource.
var ErrAbsent = errors.New("the server does not have the resource")

// Report hears how each request went; an error of nil is a success. A watch that the server has accepted ends all trouble: before it,
// a list may succeed whose watch is refused. Calls come one after another, and none after the end.
type Report func(Verb, error)

// Follower keeps one store equal to one resource.
type Follower struct {
	resource   Resource
	finder     discovery.DiscoveryInterface
	report     Report
	reflectors []*cache.Reflector // one for each version
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

// New prepares a Follower. The finder is asked which version the server has.
func New(r Resource, finder discovery.DiscoveryInterface, store cache.ReflectorStore, report Report) *Follower {
	f := &Follower{resource: r, finder: finder, report: report}
	for _, v := range r.Versions {
		f.reflectors = append(f.reflectors, f.reflector(v.Client, store))
	}
	return f
}

// reflector lists and watches one version. Each request's outcome is reported.
func (f *Follower) reflector(client cache.Getter, store cache.ReflectorStore) *cache.Reflector {
	r := f.resource
	lw := cache.NewFilteredListWatchFromClient(client, r.Name, r.Namespace, func(o *metav1.ListOptions) { o.LabelSelector = r.Labels })
	told := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := lw.ListWithContext(ctx, o)
			f.tellRequest(ctx, List, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := lw.WatchWithContext(ctx, o)
			if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) { // else a server that cannot stream a list: it is asked for one
				f.tellRequest(ctx, Watch, err)
			}
			if o.SendInitialEvents != nil && net.IsConnectionRefused(err) {
				return w, errors.New(err.Error()) // a reflector that knew would wait here, for seconds after the end of ctx
			}
			return w, err
		},
	}
	quiet := logr.Discard()
	return cache.NewReflectorWithOptions(told, r.Object, store,
		cache.ReflectorOptions{Name: "multicluster", TypeDescription: r.Name, Backoff: newBackoff(), Logger: &quiet})
}

// Run lists and watches until ctx ends. A watch that ends is begun anew, where it ended; one that the server does not know leads to
// the version that it does know.
func (f *Follower) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, logr.Discard()) // the report says what a person needs
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

// find asks the server which version of the resource it has, and says when to try that one.
func (f *Follower) find(ctx context.Context) (version int, pause time.Duration) {
	version, err := f.served()
	if err == nil {
		return version, retryFirst // and its list tells how it goes
	}
	f.tell(ctx, List, err)
	if errors.Is(err, ErrAbsent) {
		return 0, absentPoll
	}
	return version, retryMost
}

// served is the best version of the resource that the server has, or ErrAbsent. One 404 is not proof enough of absence: the server
// also has to list its groups.
func (f *Follower) served() (version int, err error) {
	for i, v := range f.resource.Versions {
		list, err := f.finder.ServerResourcesForGroupVersion(v.String())
		if err != nil && !apierrors.IsNotFound(err) {
			return i, err
		}
		if err == nil && hasResource(list, f.resource.Name) {
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
	return 0, ErrAbsent
}

func hasResource(list *metav1.APIResourceList, name string) bool {
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
}

// tellRequest tells of a list or watch. That the server does not have the resource is no failure yet: find looks into it.
func (f *Follower) tellRequest(ctx context.Context, verb Verb, err error) {
	if !apierrors.IsNotFound(err) {
		f.tell(ctx, verb, err)
	}
}

func (f *Follower) tell(ctx context.Context, verb Verb, err error) {
	if ctx.Err() == nil { // else whatever failed was cut short
		f.report(verb, err)
	}
}
