package reflector

import (
	"iter"

	"k8s.io/client-go/tools/cache"
)

// Sink stores what is kept of the objects of one resource. One goroutine calls it.
type Sink[K any] interface {
	// Keep returns what is kept of an object. It can trim the object in place.
	Keep(object any) (K, error)
	// Set stores what is kept of an object that was added or changed.
	Set(kept K)
	// Remove removes an object that was deleted. It gets the last state of the object.
	Remove(object any) error
	// ReplaceAll replaces everything with the objects in all, of which there are at most atMost, as of a
	// resource version, "" if the server does not have the resource. Objects that Keep fails for are not
	// among them.
	ReplaceAll(version string, atMost int, all iter.Seq[K])
}

// NewStore returns a store for a Follower that writes to a sink. It implements
// cache.TransformingStore: the objects of a list are trimmed one by one if the server streams it, and
// page by page if it does not. So the whole objects of a large list are never in memory at the same time.
func NewStore[K any](sink Sink[K]) cache.ReflectorStore { return store[K]{sink} }

type store[K any] struct{ sink Sink[K] }

// keep returns what is kept of an object. The objects of a list have been through the Transformer: those of a page are in the form of
// trimmed.
func (s store[K]) keep(object any) (K, error) {
	if t, ok := object.(*trimmed); ok {
		object = t.kept
	}
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

// Replace implements cache.ReflectorStore. An object that Keep fails for does not affect the
// others.
func (s store[K]) Replace(objects []any, version string) error {
	s.sink.ReplaceAll(version, len(objects), func(yield func(K) bool) {
		for _, object := range objects {
			if kept, err := s.keep(object); err == nil && !yield(kept) {
				return
			}
		}
	})
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing: the store has no other source of
// changes.
func (s store[K]) Resync() error { return nil }
