package peers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watchHome watches the Namespaces of this cluster and the Secrets of peers until ctx ends. It
// returns when it has received all existing objects.
func (r *Registry) watchHome(ctx context.Context) error {
	namespaces := newSink(r, &r.identity, nil, trimHome(r.options.Namespace), r.identityChanged)
	secrets := newSink(r, r.secrets, nil, trimSecret, r.secretsChanged)
	namespacesSeen, err := r.watch(ctx, &corev1.Namespace{}, handler(namespaces))
	if err != nil {
		return err
	}
	secretsSeen, err := r.watch(ctx, &corev1.Secret{}, handler(secrets))
	if err != nil || !toolscache.WaitForCacheSync(ctx.Done(), namespacesSeen, secretsSeen) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.awaited = map[string]bool{}
	for id := range r.peers {
		r.awaited[id] = true
	}
	return nil
}

// watch calls a handler for the objects of a type. The returned function reports whether the
// handler has received all existing objects.
func (r *Registry) watch(ctx context.Context, object client.Object, of toolscache.ResourceEventHandler) (seen toolscache.InformerSynced, err error) {
	informer, err := r.options.Cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", object, err)
	}
	registration, err := informer.AddEventHandler(of)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", object, err)
	}
	return registration.HasSynced, nil
}

// handler returns an event handler that passes the objects of an informer to a sink. Informers pass
// only objects of their own type.
func handler[T any](to *sink[T]) toolscache.ResourceEventHandler {
	set := func(object any) {
		if k, err := to.Keep(object); err == nil {
			to.Set(k)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, object any) { set(object) },
		DeleteFunc: func(object any) {
			if last, missed := object.(toolscache.DeletedFinalStateUnknown); missed {
				object = last.Obj
			}
			_ = to.Remove(object)
		},
	}
}

func (r *Registry) identityChanged([]types.NamespacedName) {
	select {
	case r.announcing <- struct{}{}:
	default: // a token is already waiting, and the next check reads all changes
	}
	r.notifyAll()
}

// announce keeps this cluster's ID, properties and heartbeat in the annotations that peers read, until ctx ends.
// It returns an error if the annotation contains another ID. Overwriting it would start a fight with another
// controller, or hide an administrator's mistake. A restarted process exits again until the
// annotation is correct or removed, and everything stays unchanged.
func (r *Registry) announce(ctx context.Context) error {
	due := time.NewTicker(r.options.Heartbeat / 6)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.announcing:
		case <-due.C:
		}
		r.mu.RLock()
		announced, lasts, version := r.identity.by[r.options.Namespace], r.identity.lasts, r.identity.version
		r.mu.RUnlock()
		if err := idFault(r.options.Home, r.options.Namespace, announced, false); err != nil {
			return err
		}
		if other, _ := r.second(); other != "" {
			return r.secondFault(other)
		}
		if !lasts {
			continue
		}
		err := r.announceNext(ctx, version)
		if apierrors.IsConflict(err) {
			continue // The namespace has changed, perhaps by the last annotation. The change, or the ticker, causes the next try.
		}
		if err != nil && ctx.Err() == nil {
			r.options.Log.Error(err, "cannot annotate the namespace for the peers", "namespace", r.options.Namespace)
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
			r.identityChanged(nil)
		}
	}
}

func (r *Registry) writeAnnotation(ctx context.Context, version, annotation string, value any) error {
	return r.writeAnnotations(ctx, version, map[string]any{annotation: value})
}

func (r *Registry) writeAnnotations(ctx context.Context, version string, annotations map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return r.options.Writer.Announce(ctx, r.options.Namespace, version, annotations)
}
