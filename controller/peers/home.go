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
func (s *Registry) watchHome(ctx context.Context) error {
	namespaces := newSink(s, &s.identity, nil, trimHome(s.options.Namespace), s.identityChanged)
	secrets := newSink(s, s.secrets, nil, trimSecret, s.secretsChanged)
	namespacesSeen, err := s.watch(ctx, &corev1.Namespace{}, handler(namespaces))
	if err != nil {
		return err
	}
	secretsSeen, err := s.watch(ctx, &corev1.Secret{}, handler(secrets))
	if err != nil || !toolscache.WaitForCacheSync(ctx.Done(), namespacesSeen, secretsSeen) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited = map[string]bool{}
	for id := range s.peers {
		s.awaited[id] = true
	}
	return nil
}

// watch has a handler called for the objects of a type. What it returns is true when the handler has seen all that there are.
func (s *Registry) watch(ctx context.Context, object client.Object, of toolscache.ResourceEventHandler) (seen toolscache.InformerSynced, err error) {
	informer, err := s.options.Cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
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

func (s *Registry) identityChanged([]types.NamespacedName) {
	select {
	case s.announcing <- struct{}{}:
	default: // all is seen when it is looked at
	}
	s.notifyAll()
}

// announce keeps the own id in the annotation that peers read, until ctx ends. It ends with an error where somebody has announced another
// id: to write ours again would be a fight with another controller, or hide an administrator's slip. Started again, the process ends
// until the annotation is right or removed, and everything stays as it is.
func (s *Registry) announce(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.announcing:
		}
		s.mu.RLock()
		announced, lasts := s.identity.by[s.options.Namespace], s.identity.lasts
		s.mu.RUnlock()
		if err := idFault(s.options.Home, s.options.Namespace, announced, false); err != nil {
			return err
		}
		if announced != "" || !lasts {
			continue
		}
		if err := s.writeID(ctx); err != nil && ctx.Err() == nil {
			s.options.Log.Error(err, "The own cluster id cannot be announced", "namespace", s.options.Namespace)
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
			s.identityChanged(nil)
		}
	}
}

func (s *Registry) writeID(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return s.options.Writer.Announce(ctx, s.options.Namespace, s.options.Home)
}
