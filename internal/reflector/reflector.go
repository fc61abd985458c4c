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
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
