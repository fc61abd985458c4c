// Package reflector keeps a store equal to one resource of an API server: it lists and watches, in whichever version the server has.
//
// Absent is not empty, and failed is neither. A list or watch that fails, for whatever reason, leaves the store as it is, and is tried
// again after at most five seconds. Where the server answers discovery and does not have the resource, that is reported as ErrAbsent,
// and the resource is looked for until it is there; what a store makes of it is up to who reads the report.
//
// A connection on which nothing arrives any more is a failure too. Lists and watches have deadlines, for every kind of connection;
// DetectDeadConnections finds out sooner.
package reflector

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	// Whole lists are asked for in one answer. A server that sends pages nevertheless could send them without end, each within the limits of an
	// answer: such a list is ErrPaged.
	Whole bool
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

// ErrPaged is reported where a server sends a list in pages that was asked for whole.
var ErrPaged = errors.New("the server sends a page of a list that was asked for in one answer")

// Report receives the outcome of lists and watches. An error of nil is a success: of a list when the store has all of it, also where
// it was streamed through a watch, and of a watch when the server has accepted it. Neither ends the trouble with the other: see
// Trouble. Calls come one after another, and none after the end.
type Report func(Verb, error)

// Trouble remembers what fails of one resource. An accepted watch is no recovery from a list that fails, nor the other way round.
type Trouble struct{ list, watch error }

// Note takes a report, and returns what fails now: nil where neither does.
func (t *Trouble) Note(verb Verb, err error) error {
	switch {
	case errors.Is(err, ErrAbsent):
		*t = Trouble{list: err} // there is nothing to watch
	case verb == Watch:
		t.watch = err
	default:
		t.list = err
	}
	if t.list != nil {
		return t.list
	}
	return t.watch
}

// Follower keeps one store equal to one resource.
type Follower struct {
	resource   Resource
	finder     discovery.DiscoveryInterface
	report     Report
	reflectors []*cache.Reflector // one for each version
	limits     limits
	ended      func() bool // set by Run
	streaming  *time.Timer // ends a streamed list that does not complete
}

// limits are deadlines: a connection may hang in a way that nothing below notices. Over HTTP/1.1 there is no ping.
type limits struct {
	list  time.Duration // for a list, and for the initial events of a watch
	grace time.Duration // for a watch, after the timeout that the server was given for it
}

// An API server ends lists after 60 seconds by itself, unless told otherwise; initial events are not limited there, and may come
// over a slow link.
var defaultLimits = limits{list: 3 * time.Minute, grace: 30 * time.Second}

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
	f := &Follower{resource: r, finder: finder, report: report, limits: defaultLimits, ended: func() bool { return false }}
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
			return f.list(ctx, lw, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return f.watch(ctx, lw, o)
		},
	}
	quiet := logr.Discard()
	return cache.NewReflectorWithOptions(told, r.Object, &toldStore{store, f.listed},
		cache.ReflectorOptions{Name: "multicluster", TypeDescription: r.Name, Backoff: newBackoff(), Logger: &quiet})
}

// list asks for a list, or a page of one. Its success is reported when the store has all of it.
func (f *Follower) list(ctx context.Context, lw cache.ListerWithContext, o metav1.ListOptions) (runtime.Object, error) {
	limited, cancel := context.WithTimeout(ctx, f.limits.list)
	defer cancel()
	if f.resource.Whole {
		o.Limit = 0
	}
	list, err := lw.ListWithContext(limited, o)
	if err == nil && f.resource.Whole && hasMore(list) {
		err = ErrPaged
	}
	if err != nil {
		f.tellRequest(List, err)
		return nil, err
	}
	return list, nil
}

func hasMore(list runtime.Object) bool {
	m, err := meta.ListAccessor(list)
	return err == nil && m.GetContinue() != ""
}

// listed is called when the store has got a list. It runs in the reflector's goroutine, as watch does.
func (f *Follower) listed(err error) {
	if f.streaming != nil {
		f.streaming.Stop()
	}
	f.tell(List, err)
}

// watch begins a watch that ends at its deadline, also where the server is never heard of again.
func (f *Follower) watch(ctx context.Context, lw cache.WatcherWithContext, o metav1.ListOptions) (watch.Interface, error) {
	limited, cancel := context.WithTimeout(ctx, f.watchLimit(o))
	streams := o.SendInitialEvents != nil && *o.SendInitialEvents
	w, err := lw.WatchWithContext(limited, o)
	if !streams || !apierrors.IsInvalid(err) { // else a server that cannot stream a list: it is asked for one
		f.tellRequest(Watch, err)
	}
	if err != nil {
		cancel()
		if streams && net.IsConnectionRefused(err) {
			err = errors.New(err.Error()) // a reflector that knew would wait here, for seconds after the end of ctx
		}
		return nil, err
	}
	if streams {
		f.streaming = time.AfterFunc(f.limits.list, cancel)
	}
	return &limitedWatch{w, cancel}, nil
}

func (f *Follower) watchLimit(o metav1.ListOptions) time.Duration {
	if o.TimeoutSeconds == nil {
		return f.limits.list // no reflector does that
	}
	return time.Duration(*o.TimeoutSeconds)*time.Second + f.limits.grace
}

// limitedWatch frees its deadline when it is stopped, as a reflector does with every watch.
type limitedWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (w *limitedWatch) Stop() {
	w.Interface.Stop()
	w.cancel()
}

// toldStore reports when it has got a list.
type toldStore struct {
	cache.ReflectorStore
	listed func(error)
}

// Replace implements cache.ReflectorStore.
func (s *toldStore) Replace(objects []any, resourceVersion string) error {
	err := s.ReflectorStore.Replace(objects, resourceVersion)
	s.listed(err)
	return err
}

// Transformer implements cache.TransformingStore: nil where the store does not transform.
func (s *toldStore) Transformer() cache.TransformFunc {
	if t, ok := s.ReflectorStore.(cache.TransformingStore); ok {
		return t.Transformer()
	}
	return nil
}

// Run lists and watches until ctx ends. A watch that ends is begun anew, where it ended; one that the server does not know leads to
// the version that it does know.
func (f *Follower) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, logr.Discard()) // the report says what a person needs
	f.ended = func() bool { return ctx.Err() != nil }
	backoff, version := newBackoff(), 0
	for ctx.Err() == nil {
		began := time.Now()
		err := f.reflectors[version].ListAndWatchWithContext(ctx)
		pause := retryFirst
		switch {
		case apierrors.IsNotFound(err):
			version, pause = f.find()
		case err != nil || time.Since(began) < retryMost: // or a list whose watch the server closes at once, again and again
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
func (f *Follower) find() (version int, pause time.Duration) {
	version, err := f.served()
	if err == nil {
		return version, retryFirst // and its list tells how it goes
	}
	f.tell(List, err)
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
func (f *Follower) tellRequest(verb Verb, err error) {
	if !apierrors.IsNotFound(err) {
		f.tell(verb, err)
	}
}

func (f *Follower) tell(verb Verb, err error) {
	if !f.ended() { // else whatever failed was cut short
		f.report(verb, err)
	}
}
