package watch

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

// store is where a reflector writes: it trims each object and hands it to the State. It implements cache.ReflectorStore, and
// cache.TransformingStore, so that a reflector trims while it decodes.
type store[T any] struct {
	kind      kind[T]
	namespace string // "" for all
	hub       *hub
	problems  map[string][]Problem // of each object that has some
	synced    bool
}

// kind is how the State holds one kind of object.
type kind[T any] struct {
	name    string
	trim    func(object any) *trimmed[T]
	set     func(*index.State, T) bool
	remove  func(s *index.State, namespace, name string) bool
	replace func(s *index.State, namespace string, all []T)
}

var importKind = kind[index.Service]{
	name: "ServiceImport",
	trim: func(object any) *trimmed[index.Service] { return trimImport(object.(*mcsv1beta1.ServiceImport)) },
	set:  (*index.State).SetService,
	remove: func(s *index.State, namespace, name string) bool {
		return s.DeleteService(index.Key{Namespace: namespace, Name: name})
	},
	replace: (*index.State).ReplaceServices,
}

var sliceKind = kind[index.Slice]{
	name: "EndpointSlice",
	trim: func(object any) *trimmed[index.Slice] { return trimSlice(object.(*discoveryv1.EndpointSlice)) },
	set:  (*index.State).SetSlice,
	remove: func(s *index.State, namespace, name string) bool {
		return s.DeleteSlice(index.SliceID{Namespace: namespace, Name: name})
	},
	replace: (*index.State).ReplaceSlices,
}

func newStore[T any](k kind[T], namespace string, h *hub) *store[T] {
	return &store[T]{kind: k, namespace: namespace, hub: h, problems: map[string][]Problem{}}
}

func (s *store[T]) trimmed(object any) *trimmed[T] {
	if t, ok := object.(*trimmed[T]); ok {
		return t // by the reflector, which calls the Transformer for a streamed list
	}
	return s.kind.trim(object)
}

// Transformer implements cache.TransformingStore.
func (s *store[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.trimmed(object), nil }
}

// Add implements cache.ReflectorStore.
func (s *store[T]) Add(object any) error {
	t := s.trimmed(object)
	s.report(t)
	s.hub.edit(func(state *index.State) bool {
		if t.value == nil {
			return s.kind.remove(state, t.namespace, t.name)
		}
		return s.kind.set(state, *t.value)
	})
	return nil
}

// Update implements cache.ReflectorStore.
func (s *store[T]) Update(object any) error { return s.Add(object) }

// Delete implements cache.ReflectorStore.
func (s *store[T]) Delete(object any) error {
	m, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	delete(s.problems, m.GetNamespace()+"/"+m.GetName())
	s.hub.edit(func(state *index.State) bool { return s.kind.remove(state, m.GetNamespace(), m.GetName()) })
	return nil
}

// Replace implements cache.ReflectorStore: the list is all that there is, whatever was there before.
func (s *store[T]) Replace(objects []any, _ string) error {
	values := make([]T, 0, len(objects))
	known := s.problems
	s.problems = make(map[string][]Problem, len(known))
	for _, object := range objects {
		t := s.trimmed(object)
		if was, ok := known[t.key()]; ok {
			s.problems[t.key()] = was
		}
		s.report(t)
		if t.value != nil {
			values = append(values, *t.value)
		}
	}
	s.hub.edit(func(state *index.State) bool {
		s.kind.replace(state, s.namespace, values)
		if !s.synced {
			s.synced = true
			s.hub.unsynced--
		}
		return true
	})
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to do: the State is the truth.
func (s *store[T]) Resync() error { return nil }

// report tells of each problem once, for as long as the object has it.
func (s *store[T]) report(t *trimmed[T]) {
	key := t.key()
	for _, p := range t.problems {
		if !slices.Contains(s.problems[key], p) {
			s.hub.observer.Problem(s.kind.name, key, p)
		}
	}
	if len(t.problems) > 0 {
		s.problems[key] = t.problems
	} else {
		delete(s.problems, key)
	}
}

func (t *trimmed[T]) key() string { return t.namespace + "/" + t.name }
