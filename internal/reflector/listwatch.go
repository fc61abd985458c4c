package reflector

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// errUnversioned is the answer of something that is not an API server.
var errUnversioned = errors.New("the list has no resourceVersion, so it is not from an API server")

// Versioned returns a ListerWatcher that refuses lists without a resourceVersion. Every list of an
// API server has one. A proxy that answers {} in the place of the API server would otherwise delete
// all objects of a cache, because client-go reads this answer as an empty list: absent is not
// empty.
func Versioned(of cache.ListerWatcher) cache.ListerWatcher {
	lw := cache.ToListerWatcherWithContext(of)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := lw.ListWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			head, err := meta.ListAccessor(list)
			if err != nil {
				return nil, fmt.Errorf("%T is not a list: %w", list, err)
			}
			if head.GetResourceVersion() == "" {
				return nil, errUnversioned
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return lw.WatchWithContext(ctx, options)
		},
	}
}
