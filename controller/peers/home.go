package peers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watchHome follows the own cluster's Namespaces and the Secrets of peers until ctx ends. It returns when all that there are have been seen.
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

// watch has a handler called for the objects of a type. What it returns is true when the handler has seen all that there are.
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

// handler puts what an informer reports into a sink. Informers pass no object of another type.
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
	default: // all is seen when it is looked at
	}
	r.notifyAll()
}

// announce keeps the own id in the annotation that peers read, until ctx ends. It ends with an error where somebody has announced another
// id: to write ours again would be a fight with another controller, or hide an administrator's slip. Started again, the process ends
// until the annotation is right or removed, and everything stays as it is.
func (r *Registry) announce(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.announcing:
		}
		r.mu.RLock()
		announced, lasts, version := r.identity.by[r.options.Namespace], r.identity.lasts, r.identity.version
		r.mu.RUnlock()
		if err := idFault(r.options.Home, r.options.Namespace, announced, false); err != nil {
			return err
		}
		if announced != "" || !lasts {
			continue
		}
		if err := r.writeID(ctx, version); err != nil && ctx.Err() == nil {
			r.options.Log.Error(err, "The own cluster id cannot be announced", "namespace", r.options.Namespace)
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
			r.identityChanged(nil)
		}
	}
}

func (r *Registry) writeID(ctx context.Context, version string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return r.options.Writer.Announce(ctx, r.options.Namespace, version, r.options.Home)
}
