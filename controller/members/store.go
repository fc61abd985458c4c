package members

import (
	"iter"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// table holds the trimmed values of one resource. put and drop append the names by which something else is said now.
type table[T any] interface {
	put(id types.NamespacedName, value T, changed []types.NamespacedName) []types.NamespacedName
	drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName
	ids() iter.Seq[types.NamespacedName]
}

// store is where a reflector writes. It trims each object and puts it into a table. It implements cache.ReflectorStore, and
// cache.TransformingStore, so that the objects of a list are trimmed one by one as they come.
type store[T any] struct {
	mu     *sync.RWMutex // of the table
	table  table[T]
	synced *bool // guarded by mu
	// trim gives what is kept of an object, or false for an object that is as good as none.
	trim func(object any) (T, bool)
	// tell hears the names that have changed, without mu; also of none, at the end of a list.
	tell func(changed []types.NamespacedName)
	pool *pool
}

// kept is a trimmed object.
type kept[T any] struct {
	id    types.NamespacedName
	value T
	ok    bool
}

func (s *store[T]) keep(object any) (kept[T], error) {
	if k, ok := object.(kept[T]); ok {
		return k, nil // by the reflector, which calls the Transformer for a streamed list
	}
	id, err := s.id(object)
	if err != nil {
		return kept[T]{}, err
	}
	value, ok := s.trim(object)
	return kept[T]{id, value, ok}, nil
}

func (s *store[T]) id(object any) (types.NamespacedName, error) {
	m, err := meta.Accessor(object)
	if err != nil {
		return types.NamespacedName{}, err
	}
	namespace := m.GetNamespace()
	return types.NamespacedName{Namespace: *s.pool.one(&namespace), Name: m.GetName()}, nil
}

// Transformer implements cache.TransformingStore.
func (s *store[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.keep(object) }
}

// Add implements cache.ReflectorStore.
func (s *store[T]) Add(object any) error {
	k, err := s.keep(object)
	if err != nil {
		return err
	}
	s.edit(func() []types.NamespacedName {
		if !k.ok {
			return s.table.drop(k.id, nil)
		}
		return s.table.put(k.id, k.value, nil)
	})
	return nil
}

// Update implements cache.ReflectorStore.
func (s *store[T]) Update(object any) error { return s.Add(object) }

// Delete implements cache.ReflectorStore.
func (s *store[T]) Delete(object any) error {
	id, err := s.id(object)
	if err != nil {
		return err
	}
	s.edit(func() []types.NamespacedName { return s.table.drop(id, nil) })
	return nil
}

func (s *store[T]) edit(f func() []types.NamespacedName) {
	s.mu.Lock()
	changed := f()
	s.mu.Unlock()
	if len(changed) > 0 {
		s.tell(changed)
	}
}

// Replace implements cache.ReflectorStore: the list is all that there is, whatever was there before. What cannot be understood is
// left out, and costs no other object its place.
func (s *store[T]) Replace(objects []any, _ string) error {
	all := make([]kept[T], 0, len(objects))
	there := make(map[types.NamespacedName]bool, len(objects))
	for _, object := range objects {
		if k, err := s.keep(object); err == nil && k.ok {
			all = append(all, k)
			there[k.id] = true
		}
	}
	s.mu.Lock()
	var gone, changed []types.NamespacedName
	for id := range s.table.ids() {
		if !there[id] {
			gone = append(gone, id)
		}
	}
	for _, id := range gone {
		changed = s.table.drop(id, changed)
	}
	for _, k := range all {
		changed = s.table.put(k.id, k.value, changed)
	}
	*s.synced = true
	s.mu.Unlock()
	s.tell(changed)
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to do: the table is the truth.
func (s *store[T]) Resync() error { return nil }
