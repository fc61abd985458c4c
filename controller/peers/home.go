package peers

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/reflector"
)

// reflectorStore is what stores of all types have in common.
type reflectorStore = cache.ReflectorStore

func newStore[T any](s *Registry, to table[T], synced *bool, trim func(any) (T, bool), tell func([]types.NamespacedName)) reflectorStore {
	return reflector.NewStore(&sink[T]{mu: &s.mu, table: to, synced: synced, trim: trim, tell: tell, pool: &s.pool})
}

// homeFollowers read the own cluster: the slices of its own Services, its namespaces, and the Secrets of peers.
func (s *Registry) homeFollowers() ([]*reflector.Follower, error) {
	finder, err := discovery.NewDiscoveryClientForConfigAndClient(s.config, s.client)
	if err != nil {
		return nil, err
	}
	var followers []*reflector.Follower
	for _, of := range []struct {
		reflector.Resource
		gv    schema.GroupVersion
		store reflectorStore
	}{
		{
			reflector.Resource{Name: "endpointslices", Labels: discoveryv1.LabelServiceName + ",!" + mcsv1beta1.LabelServiceName, Object: &discoveryv1.EndpointSlice{}},
			discoveryv1.SchemeGroupVersion,
			newStore(s, s.home, &s.synced.slices, s.trimSlice(discoveryv1.LabelServiceName), s.homeChanged),
		},
		{
			reflector.Resource{Name: "namespaces", Object: &corev1.Namespace{}},
			corev1.SchemeGroupVersion,
			newStore(s, &s.identity, &s.synced.namespaces, trimHome(s.options.Namespace), s.identityChanged),
		},
		{
			reflector.Resource{Name: "secrets", Namespace: s.options.Namespace, Labels: mcs.LabelPeer, Object: &corev1.Secret{}},
			corev1.SchemeGroupVersion,
			newStore(s, s.secrets, &s.synced.secrets, trimSecret, s.secretsChanged),
		},
	} {
		if of.Versions, err = versions(s.config, s.client, of.gv); err != nil {
			return nil, err
		}
		followers = append(followers, reflector.New(of.Resource, finder, of.store, s.homeReport(of.Name)))
	}
	return followers, nil
}

// homeReport logs the first of several failures, and their end.
func (s *Registry) homeReport(resource string) reflector.Report {
	failed := false
	var trouble reflector.Trouble
	return func(verb reflector.Verb, err error) {
		err = trouble.Note(verb, err)
		switch {
		case err != nil && !failed:
			failed = true
			s.options.Log.Error(err, "The own cluster cannot be read", "resource", resource)
		case err == nil && failed:
			failed = false
			s.options.Log.Info("The own cluster can be read again", "resource", resource)
		}
	}
}

func (s *Registry) homeChanged(names []types.NamespacedName) {
	s.mu.Lock()
	s.settleLocked()
	s.mu.Unlock()
	s.call(names)
}

func (s *Registry) identityChanged([]types.NamespacedName) {
	s.mu.Lock()
	s.listedLocked()
	s.mu.Unlock()
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
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{mcs.AnnotationClusterID: s.options.Home}}})
	if err != nil {
		return err
	}
	_, err = s.namespaces.Patch(ctx, s.options.Namespace, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: mcs.ControllerName})
	return err
}
