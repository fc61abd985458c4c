package watch

import (
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

// store is where a reflector writes: it trims each object and hands it to the State. It implements cache.ReflectorStore, and
// cache.TransformingStore, so that a reflector trims while it decodes.
type store[T any] struct {
	kind      kind[T]
	namespace string // "" for all
	hub       *hub
	problems  map[objectID]reported // of each object that has some
	synced    bool
}

// kind is how the State holds one kind of object.
type kind[T any] struct {
	name    string
	trim    func(object any) *kept[T]
	id      func(T) objectID
	set     func(*hub, T) bool
	remove  func(*hub, objectID) bool
	replace func(*hub, string, []T)
}

type objectID struct{ namespace, name string }

// kept is a trimmed object in the form that waits for the end of the first list, where there may be a hundred thousand of them.
type kept[T any] struct {
	value   *T
	changed int64 // in nanoseconds since 1970; 0 where it is not known
	odd     *odd  // nil where all of the object is served
}

// odd is what else there is to know of an object that is not served whole.
type odd struct {
	objectID
	problems []Problem
}

func keep[T any](t *trimmed[T]) *kept[T] {
	k := &kept[T]{value: t.value}
	if !t.changed.IsZero() {
		k.changed = t.changed.UnixNano()
	}
	if t.value == nil || len(t.problems) > 0 {
		k.odd = &odd{objectID{t.namespace, t.name}, t.described()}
	}
	return k
}

var importKind = kind[entry]{
	name:    "ServiceImport",
	trim:    func(object any) *kept[entry] { return keep(entryOf(trimImport(object.(*serviceImport)))) },
	id:      func(e entry) objectID { return objectID{e.Namespace(), e.Name()} },
	set:     (*hub).setImport,
	remove:  func(h *hub, id objectID) bool { return h.removeImport(index.NewKey(id.namespace, id.name)) },
	replace: (*hub).replaceImports,
}

var sliceKind = kind[index.Slice]{
	name: "EndpointSlice",
	trim: func(object any) *kept[index.Slice] { return keep(trimSlice(object.(*discoveryv1.EndpointSlice))) },
	id:   func(s index.Slice) objectID { return objectID{s.Namespace, s.Name} },
	set:  func(h *hub, s index.Slice) bool { return h.state.SetSlice(s) },
	remove: func(h *hub, id objectID) bool {
		return h.state.DeleteSlice(index.SliceID{Namespace: id.namespace, Name: id.name})
	},
	replace: func(h *hub, namespace string, all []index.Slice) { h.state.ReplaceSlices(namespace, all) },
}

func newStore[T any](k kind[T], namespace string, h *hub) *store[T] {
	h.unsynced[k.name]++
	return &store[T]{kind: k, namespace: namespace, hub: h, problems: map[objectID]reported{}}
}

func (s *store[T]) kept(object any) *kept[T] {
	if k, ok := object.(*kept[T]); ok {
		return k // by the reflector, which calls the Transformer for a streamed list
	}
	return s.kind.trim(object)
}

func (s *store[T]) idOf(k *kept[T]) objectID {
	if k.odd != nil {
		return k.odd.objectID
	}
	return s.kind.id(*k.value)
}

// Transformer implements cache.TransformingStore.
func (s *store[T]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.kept(object), nil }
}

// Add implements cache.ReflectorStore.
func (s *store[T]) Add(object any) error {
	k := s.kept(object)
	s.report(k)
	s.hub.edit(change{s.kind.name, k.changed}, func(h *hub) bool {
		if k.value == nil {
			return s.kind.remove(h, k.odd.objectID)
		}
		return s.kind.set(h, *k.value)
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
	id := objectID{m.GetNamespace(), m.GetName()}
	delete(s.problems, id)
	s.hub.edit(change{}, func(h *hub) bool { return s.kind.remove(h, id) })
	return nil
}

// Replace implements cache.ReflectorStore: the list is all that there is, whatever was there before.
func (s *store[T]) Replace(objects []any, _ string) error {
	values := make([]T, 0, len(objects))
	known := s.problems
	s.problems = make(map[objectID]reported, len(known))
	for _, object := range objects {
		k := s.kept(object)
		if was, ok := known[s.idOf(k)]; ok {
			s.problems[s.idOf(k)] = was
		}
		s.report(k)
		if k.value != nil {
			values = append(values, *k.value)
		}
	}
	s.hub.edit(change{}, func(h *hub) bool {
		s.kind.replace(h, s.namespace, values)
		if !s.synced {
			s.synced = true
			h.unsynced[s.kind.name]--
		}
		return true
	})
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to do: the State is the truth.
func (s *store[T]) Resync() error { return nil }

// report tells of the problems of an object when they are others than before. Those of one object are described at most once a minute.
func (s *store[T]) report(k *kept[T]) {
	id := s.idOf(k)
	if k.odd == nil || len(k.odd.problems) == 0 {
		delete(s.problems, id)
		return
	}
	now, before, set := time.Now(), s.problems[id], hashSet(k.odd.problems)
	if set == before.set {
		return
	}
	again := now.Sub(before.told) < describeEvery
	s.hub.observer.Problems(s.kind.name, id.namespace+"/"+id.name, k.odd.problems, again)
	if again {
		now = before.told
	}
	s.problems[id] = reported{set, now}
}

const describeEvery = time.Minute
