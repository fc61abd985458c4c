package peers

import (
	"iter"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterset-dns/multicluster/internal/compact"
	"github.com/clusterset-dns/multicluster/internal/reflector"
)

// table contains the trimmed values of one resource. put and drop append the names that have
// changed.
type table[T any] interface {
	put(id types.NamespacedName, value T, changed []types.NamespacedName) []types.NamespacedName
	drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName
	ids() iter.Seq[types.NamespacedName]
}

// sink trims each object of one resource and puts it into a table. It implements reflector.Sink.
type sink[T any] struct {
	mu     *sync.RWMutex // guards the table
	table  table[T]
	synced *bool // true after a complete list, guarded by mu; nil without lists
	// trim returns the part of an object that is kept, or false for an object that is ignored.
	trim func(object any) (T, bool)
	// tell receives the names that have changed, without mu. After a list it is called even if no
	// name has changed.
	tell    func(changed []types.NamespacedName)
	strings *compact.Strings
}

func newSink[T any](s *Registry, to table[T], synced *bool, trim func(any) (T, bool), tell func([]types.NamespacedName)) *sink[T] {
	return &sink[T]{mu: &s.mu, table: to, synced: synced, trim: trim, tell: tell, strings: &s.strings}
}

// newStore returns the store of a reflector.
func newStore[T any](s *Registry, to table[T], synced *bool, trim func(any) (T, bool), tell func([]types.NamespacedName)) cache.ReflectorStore {
	return reflector.NewStore(newSink(s, to, synced, trim, tell))
}

// item is a trimmed object.
type item[T any] struct {
	id    types.NamespacedName
	value T
	ok    bool
}

// Keep implements reflector.Sink.
func (s *sink[T]) Keep(object any) (item[T], error) {
	id, err := s.id(object)
	if err != nil {
		return item[T]{}, err
	}
	value, ok := s.trim(object)
	return item[T]{id, value, ok}, nil
}

func (s *sink[T]) id(object any) (types.NamespacedName, error) {
	m, err := meta.Accessor(object)
	if err != nil {
		return types.NamespacedName{}, err
	}
	namespace := m.GetNamespace()
	return types.NamespacedName{Namespace: *s.strings.One(&namespace), Name: m.GetName()}, nil
}

// Set implements reflector.Sink.
func (s *sink[T]) Set(k item[T]) {
	s.edit(func() []types.NamespacedName {
		if !k.ok {
			return s.table.drop(k.id, nil)
		}
		return s.table.put(k.id, k.value, nil)
	})
}

// Remove implements reflector.Sink.
func (s *sink[T]) Remove(object any) error {
	id, err := s.id(object)
	if err != nil {
		return err
	}
	s.edit(func() []types.NamespacedName { return s.table.drop(id, nil) })
	return nil
}

func (s *sink[T]) edit(f func() []types.NamespacedName) {
	s.mu.Lock()
	changed := f()
	s.mu.Unlock()
	if len(changed) > 0 {
		s.tell(changed)
	}
}

// ReplaceAll implements reflector.Sink.
func (s *sink[T]) ReplaceAll(_ string, atMost int, list iter.Seq[item[T]]) {
	all := make([]item[T], 0, atMost)
	there := make(map[types.NamespacedName]bool, atMost)
	for k := range list {
		if k.ok {
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
}
