// Package reflector keeps a store equal to one resource of an API server. It lists and watches the
// resource in a version that the server has.
//
// Absent is not empty, and a failure is neither. A list or watch that fails, for any reason, leaves
// the store unchanged, and is tried again after at most five seconds. If the server answers
// discovery and does not have the resource, the package reports ErrAbsent, and looks for the
// resource until it exists. The receiver of the report decides what that means for the store. A 404 for
// a resource that discovery has is a failure like others.
//
// A connection on which no more data arrives is a failure too. Lists and watches have deadlines for
// every kind of connection. DetectDeadConnections detects the failure sooner.
package reflector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Resource is the resource to follow.
type Resource struct {
	Name      string // plural, as in the URL
	Namespace string // "" for all
	Labels    string // a selector; "" for all
	Fields    string // a selector; "" for all
	Object    any    // of the type that it decodes to
	Versions  []Version
	// Whole requests lists in one answer. A server that sends pages nevertheless could send them
	// without end, each within the size limit of an answer, so such a list fails with ErrPaged.
	Whole bool
}

// Version is a version in which the resource can be read. The best version comes first.
type Version struct {
	schema.GroupVersion
	Client cache.Getter
}

// Verb is the kind of a request.
type Verb string

const (
	List  Verb = "list"
	Watch Verb = "watch"
)

// ErrAbsent is reported if a working server does not have the resource.
var ErrAbsent = errors.New("the server does not have the resource")

// ErrPaged is reported if a server sends pages of a list that was requested in one answer.
var ErrPaged = errors.New("the server sent one page of a list that was requested in one answer")

// Report receives the outcome of lists and watches. A nil error is a success. A list succeeds when
// the store has all of it, also if it was streamed through a watch. A watch succeeds when the
// server has accepted it. The success of one does not end a failure of the other: see Trouble.
// Calls come one after another, and none after Run ends.
type Report func(Verb, error)

// Trouble keeps the current failures of one resource. An accepted watch does not end the failure of
// a list, or the reverse.
type Trouble struct{ list, watch error }

// Note takes a report and returns the current failure, or nil if there is none.
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
	report     Report
	reflectors []*cache.Reflector // one for each version
	limits     limits
	ended      func() bool // set by Run, and for its goroutine only
	streaming  *time.Timer // ends a streamed list that does not complete
}

// These are the pauses between two tries. A resource that the server does not have is looked for at
// a constant interval, so that a CRD that is installed later is used soon.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = 5 * time.Second
	absentPoll = 2 * time.Second
)

func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: retryFirst, Factor: 2, Jitter: 0.2, Steps: 30, Cap: retryMost}
}

// New prepares a Follower.
func New(r Resource, store cache.ReflectorStore, report Report) *Follower {
	f := &Follower{resource: r, report: report, limits: defaultLimits, ended: func() bool { return false }}
	for _, v := range r.Versions {
		f.reflectors = append(f.reflectors, f.reflector(v.Client, store))
	}
	return f
}

// reflector returns a reflector that lists and watches one version and reports each request's
// outcome.
func (f *Follower) reflector(client cache.Getter, store cache.ReflectorStore) *cache.Reflector {
	r := f.resource
	plain := cache.NewFilteredListWatchFromClient(client, r.Name, r.Namespace, func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = r.Labels, r.Fields })
	lw := cache.ToListerWatcherWithContext(versioned(plain, versionOf(client, r)))
	to := &toldStore{store, f.listed}
	told := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return f.list(ctx, lw, to.Transformer(), o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return f.watch(ctx, lw, o)
		},
	}
	quiet := logr.Discard()
	reflector := cache.NewReflectorWithOptions(told, r.Object, to,
		cache.ReflectorOptions{Name: "multicluster", TypeDescription: r.Name, Backoff: newBackoff(), Logger: &quiet})
	if !r.Whole {
		reflector.WatchListPageSize = pageSize
	}
	return reflector
}

// Run lists and watches until ctx ends. A watch that ends is restarted where it ended. If the
// server does not know the version, Run looks for a version that it knows.
func (f *Follower) Run(ctx context.Context) {
	// Reports replace the reflector's log.
	ctx = klog.NewContext(ctx, logr.Discard())
	f.ended = func() bool { return ctx.Err() != nil }
	backoff, version := newBackoff(), 0
	for ctx.Err() == nil {
		began := time.Now()
		err := f.reflectors[version].ListAndWatchWithContext(ctx)
		pause := retryFirst
		switch {
		case apierrors.IsNotFound(err):
			served, fault := f.served(ctx)
			switch {
			case errors.Is(fault, ErrAbsent):
				pause = absentPoll
			case fault != nil:
				pause = retryMost
			case served == version: // the server contradicts itself
				fault, pause = err, backoff.Step()
			}
			if version = served; fault != nil {
				f.tell(ctx, List, fault)
			}
		// The second case is a server that closes the watch at once after each list.
		case err != nil || time.Since(began) < retryMost:
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

// named is an element of a list of discovery. Nothing else of it is decoded: an element of three bytes is a hundred times as large
// in Kubernetes' own types, and a hostile server can send millions.
type named struct {
	Name string `json:"name"`
}

// served returns the index of the best version of the resource that the server has, or ErrAbsent.
// One 404 does not prove absence: the server must also list its API groups.
func (f *Follower) served(ctx context.Context) (version int, err error) {
	for i, v := range f.resource.Versions {
		path := "/apis/" + v.String()
		if v.Group == "" {
			path = "/api/" + v.Version
		}
		var list struct {
			Resources []named `json:"resources"`
		}
		if err := f.discover(ctx, v, path, &list); err != nil && !apierrors.IsNotFound(err) {
			return i, err
		}
		if slices.Contains(list.Resources, named{f.resource.Name}) {
			return i, nil
		}
	}
	var list struct {
		Groups []named `json:"groups"`
	}
	if err := f.discover(ctx, f.resource.Versions[0], "/apis", &list); err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(list.Groups, func(group named) bool { return group.Name != "" }) {
		// The client treats a refused list as an empty list.
		return 0, errors.New("the server lists no API groups")
	}
	return 0, ErrAbsent
}

// maxDiscovery bounds an answer of discovery, in bytes. A thousand API groups take 250 KB.
const maxDiscovery = 1 << 20

// discover reads an answer of discovery with the client of a version, which bounds it as it bounds a list.
func (f *Follower) discover(ctx context.Context, with Version, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, f.limits.list)
	defer cancel()
	text, err := with.Client.Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return err
	}
	if len(text) > maxDiscovery {
		return fmt.Errorf("the answer to %s has %d bytes, want at most %d", path, len(text), maxDiscovery)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the answer to %s is not one of discovery: %w", path, err)
	}
	return nil
}

// tellRequest reports the outcome of a list or watch. It does not report that the server does not
// have the resource: Run checks this first.
func (f *Follower) tellRequest(ctx context.Context, verb Verb, err error) {
	if !apierrors.IsNotFound(err) {
		f.tell(ctx, verb, err)
	}
}

// tell reports an outcome, unless the end of Run, whose context it gets, was the cause. A list can end
// later than Run, when Run has begun again.
func (f *Follower) tell(ctx context.Context, verb Verb, err error) {
	if ctx.Err() == nil {
		f.report(verb, err)
	}
}
