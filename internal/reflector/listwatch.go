package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// errUnversioned is the answer of something that is not an API server.
var errUnversioned = errors.New("the list has no resourceVersion, so it is not from an API server")

// Versioned returns a ListerWatcher that relies on a resourceVersion only where it means something.
//
// It refuses lists without one. Every list of an API server has one. A proxy that answers {} in the place
// of the API server would otherwise delete all objects of a cache, because client-go reads this answer as
// an empty list: absent is not empty.
//
// It goes on with a watch only at the first try, and only if the server has reached its version. Otherwise client-go lists again. Versions go
// back when etcd is restored from a backup. A watch from a later version then shows nothing until the server has got there, which can take
// days, and a streamed list never ends. A watch from a version that the server has passed again lacks what came before. The
// question costs one object of a list for each watch that is begun again: every few minutes.
func Versioned(of cache.ListerWatcher) cache.ListerWatcher {
	lw := cache.ToListerWatcherWithContext(of)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, _, err := listVersioned(ctx, lw, options)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if err := reached(ctx, lw, options.ResourceVersion); err != nil {
				return nil, final(err)
			}
			w, err := lw.WatchWithContext(ctx, options)
			return w, final(err)
		},
	}
}

// final hides from client-go that a connection was refused: it would try the watch again, and not return before, also if ctx has ended.
func final(err error) error {
	if net.IsConnectionRefused(err) {
		return errors.New(err.Error())
	}
	return err
}

func listVersioned(ctx context.Context, lw cache.ListerWithContext, options metav1.ListOptions) (list runtime.Object, version string, err error) {
	if list, err = lw.ListWithContext(ctx, options); err != nil {
		return nil, "", err
	}
	head, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", fmt.Errorf("%T is not a list: %w", list, err)
	}
	if head.GetResourceVersion() == "" {
		return nil, "", errUnversioned
	}
	return list, head.GetResourceVersion(), nil
}

// oneObject is the time for a list of one object.
const oneObject = 30 * time.Second

// reached returns an error if the server has not reached a version. A list without a version is as new as etcd: so no other API server
// of the cluster has shown a later one.
func reached(ctx context.Context, lw cache.ListerWithContext, version string) error {
	if version == "" || version == "0" {
		return nil // any version will do
	}
	ctx, cancel := context.WithTimeout(ctx, oneObject)
	defer cancel()
	_, now, err := listVersioned(ctx, lw, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	if order, err := resourceversion.CompareResourceVersion(now, version); err == nil && order < 0 {
		return apierrors.NewResourceExpired(fmt.Sprintf("the API server is at version %s, which is before %s: etcd was restored, so everything is listed again", now, version))
	}
	return nil
}
