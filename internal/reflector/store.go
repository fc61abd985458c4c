package reflector

import (
	"iter"

	"k8s.io/client-go/tools/cache"
)

// Sink holds what is kept of the objects of one resource. One goroutine calls it.
type Sink[K any] interface {
	// Keep returns what is kept of an object, which is trimmed in place.
	Keep(object any) (K, error)
	// Set takes what is kept of an object that was added, or changed.
	Set(kept K)
	// Remove takes the last state of an object that was deleted.
	Remove(object any) error
	// ReplaceAll takes what there is, whatever was there before, of at most that many objects. Those that Keep does not understand are not
	// among them.
	ReplaceAll(atMost int, all iter.Seq[K])
}

// NewStore returns a store for a Follower that writes to a sink. It implements cache.TransformingStore: the objects of a list are trimmed one by
// one while they are decoded, so that the whole objects of a large list are never in memory at the same time.
func NewStore[K any](sink Sink[K]) cache.ReflectorStore { return store[K]{sink} }

type store[K any] struct{ sink Sink[K] }

// keep returns what is kept of an object. The Transformer may have been called for it, as it is for a streamed list.
func (s store[K]) keep(object any) (K, error) {
	if kept, ok := object.(K); ok {
		return kept, nil
	}
	return s.sink.Keep(object)
}

// Transformer implements cache.TransformingStore.
func (s store[K]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.keep(object) }
}

// Add implements cache.ReflectorStore.
func (s store[K]) Add(object any) error {
	kept, err := s.keep(object)
	if err == nil {
		s.sink.Set(kept)
	}
	return err
}

// Update implements cache.ReflectorStore.
func (s store[K]) Update(object any) error { return s.Add(object) }

// Delete implements cache.ReflectorStore.
func (s store[K]) Delete(object any) error { return s.sink.Remove(object) }

// Replace implements cache.ReflectorStore. An object that cannot be understood costs no other object its place.
func (s store[K]) Replace(objects []any, _ string) error {
	s.sink.ReplaceAll(len(objects), func(yield func(K) bool) {
		for _, object := range objects {
			if kept, err := s.keep(object); err == nil && !yield(kept) {
				return
			}
		}
	})
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to do: what was written last is the truth.
func (s store[K]) Resync() error { return nil }
