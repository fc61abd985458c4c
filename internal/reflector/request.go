package reflector

import (
	"context"
	"errors"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// limits are deadlines: a connection can hang without an error at any lower layer. HTTP/1.1 has no
// ping.
type limits struct {
	list  time.Duration // for a list, and for the initial events of a watch
	grace time.Duration // for a watch, in addition to the timeout that the server was given
}

// An API server ends lists after 60 seconds by default. It does not limit initial events, which can
// come over a slow link.
var defaultLimits = limits{list: 3 * time.Minute, grace: 30 * time.Second}

// pageSize is how many objects a list without streaming is read at a time. kubectl asks for as many.
const pageSize = 500

// list requests a list, or a page of it, and trims its objects. A success is reported when the store has all of it.
func (f *Follower) list(ctx context.Context, lw cache.ListerWithContext, trim cache.TransformFunc, o metav1.ListOptions) (runtime.Object, error) {
	limited, cancel := context.WithTimeout(ctx, f.limits.list)
	defer cancel()
	if f.resource.Whole {
		o.Limit = 0
	} else {
		if o.Limit == 0 { // so client-go asks again if the server has forgotten the list between two pages
			err := apierrors.NewResourceExpired("the API server forgot the list between two pages; it is read again from the first one")
			f.tellRequest(ctx, List, err)
			return nil, err
		}
		// The newest state is sent in pages. One that is at least as new as some version is sent whole, whatever the limit.
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
	list, err := lw.ListWithContext(limited, o)
	if err == nil && f.resource.Whole && hasMore(list) {
		err = ErrPaged
	}
	if err == nil && trim != nil {
		list, err = trimAll(list, trim)
	}
	if err != nil {
		f.tellRequest(ctx, List, err)
		return nil, err
	}
	return list, nil
}

// trimmed is what is kept of an object of a list. It is an object, as a list has nothing else.
type trimmed struct{ kept any }

// GetObjectKind implements runtime.Object.
func (*trimmed) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. Nobody edits it.
func (t *trimmed) DeepCopyObject() runtime.Object { return t }

// trimAll returns a list of what is kept of its objects. One that cannot be kept does not affect the others.
func trimAll(list runtime.Object, trim cache.TransformFunc) (runtime.Object, error) {
	head, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	short := &metainternalversion.List{ListMeta: metav1.ListMeta{ResourceVersion: head.GetResourceVersion(), Continue: head.GetContinue()}}
	return short, meta.EachListItem(list, func(object runtime.Object) error {
		if kept, err := trim(object); err == nil {
			short.Items = append(short.Items, &trimmed{kept: kept})
		}
		return nil
	})
}

func hasMore(list runtime.Object) bool {
	m, err := meta.ListAccessor(list)
	return err == nil && m.GetContinue() != ""
}

// listed is called when the store has received a list. It runs in the reflector's goroutine, as
// watch does.
func (f *Follower) listed(err error) {
	if f.streaming != nil {
		f.streaming.Stop()
	}
	if !f.ended() {
		f.report(List, err)
	}
}

// watch starts a watch that ends at its deadline, also if the server does not answer any more.
func (f *Follower) watch(ctx context.Context, lw cache.WatcherWithContext, o metav1.ListOptions) (watch.Interface, error) {
	limited, cancel := context.WithTimeout(ctx, f.watchLimit(o))
	streams := o.SendInitialEvents != nil && *o.SendInitialEvents
	w, err := lw.WatchWithContext(limited, o)
	if err == nil && reflect.TypeOf(w) == emptyWatch {
		err = errNoAnswer
	}
	// A server that cannot stream lists answers Invalid. The reflector then requests a normal list.
	if !streams || !apierrors.IsInvalid(err) {
		f.tellRequest(ctx, Watch, err)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	if streams {
		f.streaming = time.AfterFunc(f.limits.list, cancel)
	}
	return &limitedWatch{w, cancel}, nil
}

// emptyWatch is the type of the watch that client-go returns, without an error, if no request for it was
// answered in time.
var emptyWatch = reflect.TypeOf(watch.NewEmptyWatch())

var errNoAnswer = errors.New("no answer to the request for a watch")

func (f *Follower) watchLimit(o metav1.ListOptions) time.Duration {
	if o.TimeoutSeconds == nil {
		return f.limits.list // no reflector does that
	}
	return time.Duration(*o.TimeoutSeconds)*time.Second + f.limits.grace
}

// limitedWatch releases its deadline when it is stopped. A reflector stops every watch.
type limitedWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (w *limitedWatch) Stop() {
	w.Interface.Stop()
	w.cancel()
}

// toldStore calls listed when it has received a list.
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

// Transformer implements cache.TransformingStore. It returns nil if the store does not transform.
func (s *toldStore) Transformer() cache.TransformFunc {
	if t, ok := s.ReflectorStore.(cache.TransformingStore); ok {
		return t.Transformer()
	}
	return nil
}
