package reflector

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// limits are deadlines: a connection may hang in a way that nothing below notices. Over HTTP/1.1 there is no ping.
type limits struct {
	list  time.Duration // for a list, and for the initial events of a watch
	grace time.Duration // for a watch, after the timeout that the server was given for it
}

// An API server ends lists after 60 seconds by itself, unless told otherwise; initial events are not limited there, and may come
// over a slow link.
var defaultLimits = limits{list: 3 * time.Minute, grace: 30 * time.Second}

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

// watch begins a watch that ends at its deadline, also where the server does not answer again.
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
