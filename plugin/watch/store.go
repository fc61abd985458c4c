package watch

import (
	"iter"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

// sink trims each object and hands it to the State. It implements reflector.Sink.
type sink[T any] struct {
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

func newSink[T any](k kind[T], namespace string, h *hub) *sink[T] {
	h.unsynced[k.name]++
	return &sink[T]{kind: k, namespace: namespace, hub: h, problems: map[objectID]reported{}}
}

func (s *sink[T]) idOf(k *kept[T]) objectID {
	if k.odd != nil {
		return k.odd.objectID
	}
	return s.kind.id(*k.value)
}

// Keep implements reflector.Sink.
func (s *sink[T]) Keep(object any) (*kept[T], error) { return s.kind.trim(object), nil }

// Set implements reflector.Sink.
func (s *sink[T]) Set(k *kept[T]) {
	s.report(k)
	s.hub.edit(change{s.kind.name, k.changed}, func(h *hub) bool {
		if k.value == nil {
			return s.kind.remove(h, k.odd.objectID)
		}
		return s.kind.set(h, *k.value)
	})
}

// Remove implements reflector.Sink.
func (s *sink[T]) Remove(object any) error {
	m, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	id := objectID{m.GetNamespace(), m.GetName()}
	delete(s.problems, id)
	s.hub.edit(change{}, func(h *hub) bool { return s.kind.remove(h, id) })
	return nil
}

// ReplaceAll implements reflector.Sink.
func (s *sink[T]) ReplaceAll(atMost int, all iter.Seq[*kept[T]]) {
	values := make([]T, 0, atMost)
	known := s.problems
	s.problems = make(map[objectID]reported, len(known))
	for k := range all {
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
}

// report tells of the problems of an object when they are others than before. Those of one object are described at most once a minute.
func (s *sink[T]) report(k *kept[T]) {
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
