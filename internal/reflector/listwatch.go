package reflector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
// It goes on with a watch only if the server has reached its version, and does not try again where nobody
// listens. Otherwise client-go lists again. Versions go back when etcd is restored from a backup. A watch
// from a later version then shows nothing until the server has got there, which can take days, and a
// streamed list that should be at least as new never ends: so it is always of the newest state. A watch
// from a version that the server has passed again lacks what came before. The question for the version
// costs one object of a list for each watch: every few minutes. It also shows at once that a client may watch and may
// not list. A streamed list needs no right to list, and what comes after it does. Other answers do not matter to it.
func Versioned(of cache.ListerWatcher) cache.ListerWatcher {
	lw := cache.ToListerWatcherWithContext(of)
	return versioned(lw, func(ctx context.Context) (version string, err error) {
		_, version, err = listVersioned(ctx, lw, metav1.ListOptions{Limit: 1})
		return version, err
	})
}

// versioned is Versioned with a question for the version of the server: as new as etcd, so that no other API server of the cluster has shown a
// later one.
func versioned(lw cache.ListerWatcherWithContext, version func(context.Context) (string, error)) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, _, err := listVersioned(ctx, lw, options)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			streams := options.SendInitialEvents != nil && *options.SendInitialEvents
			if streams {
				options.ResourceVersion = "" // the newest state
			}
			if err := reached(ctx, version, options.ResourceVersion); err != nil && (!streams || apierrors.IsForbidden(err)) {
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

// reached returns an error if the server has not reached a version, or does not say. Any version will do for "" and "0".
func reached(ctx context.Context, ask func(context.Context) (string, error), version string) error {
	ctx, cancel := context.WithTimeout(ctx, oneObject)
	defer cancel()
	now, err := ask(ctx)
	if err != nil {
		return err
	}
	if order, err := resourceversion.CompareResourceVersion(now, version); err == nil && order < 0 {
		return apierrors.NewResourceExpired(fmt.Sprintf("the API server is at version %s, which is before %s: etcd was restored, so everything is listed again", now, version))
	}
	return nil
}

// maxQuestion bounds the answer to the question for a version, in bytes: the metadata of one object are at most as long as an object.
const maxQuestion = 2 << 20

// versionOf asks for the version of a server by a list of the metadata of any object, without the label selector: an API server that does not
// list from memory would read objects until it finds one that is selected. A selector of fields stays: it is for the one object that
// the account has a right to. A hostile peer can let it be asked often, so nothing else is
// decoded.
func versionOf(client cache.Getter, r Resource) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		body, err := client.Get().Resource(r.Name).NamespaceIfScoped(r.Namespace, r.Namespace != "").
			VersionedParams(&metav1.ListOptions{Limit: 1, FieldSelector: r.Fields}, metav1.ParameterCodec).
			SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json").Stream(ctx)
		if err != nil {
			return "", err
		}
		defer func() { _ = body.Close() }()
		head, err := headOf(io.LimitReader(body, maxQuestion))
		if err != nil {
			return "", fmt.Errorf("the answer to the question for the version of %s is no list of one object: %w", r.Name, err)
		}
		if head.ResourceVersion == "" {
			return "", errUnversioned
		}
		return head.ResourceVersion, nil
	}
}

// headOf reads the metadata of a list in JSON, which come before its objects.
func headOf(list io.Reader) (head metav1.ListMeta, err error) {
	text := json.NewDecoder(list)
	if start, err := text.Token(); err != nil || start != json.Delim('{') {
		return head, errors.Join(err, fmt.Errorf("it begins with %v, want an object", start))
	}
	for text.More() {
		key, err := text.Token()
		if err != nil {
			return head, err
		}
		if key == "metadata" {
			err := text.Decode(&head)
			return head, err
		}
		if err := text.Decode(new(json.RawMessage)); err != nil {
			return head, err
		}
	}
	return head, nil // it has none
}
