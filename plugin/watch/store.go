package watch

import (
	"iter"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

// sink trims each object and passes it to the State. It implements reflector.Sink.
type sink[T any] struct {
	kind      kind[T]
	namespace string // "" for all
	publisher *publisher
	problems  map[objectID]reported // of each object with problems
}

// kind describes how the State stores one kind of object.
type kind[T any] struct {
	name    string
	trim    func(object any) *item[T]
	id      func(T) objectID
	set     func(*publisher, T) bool
	remove  func(*publisher, objectID) bool
	replace func(*publisher, string, []T)
}

type objectID struct{ namespace, name string }

// item is a trimmed object that waits for the end of the first list, which can have a hundred
// thousand of them.
type item[T any] struct {
	value   *T
	version uint64
	changed int64   // in nanoseconds since 1970; 0 if unknown
	faulty  *faulty // nil if all of the object is served
}

// faulty is additional data of an object that is not served completely.
type faulty struct {
	objectID
	problems []Problem
}

func keep[T any](t *trimmed[T]) *item[T] {
	k := &item[T]{value: t.value, version: t.version}
	if !t.changed.IsZero() {
		k.changed = t.changed.UnixNano()
	}
	if t.value == nil || len(t.problems) > 0 {
		k.faulty = &faulty{objectID{t.namespace, t.name}, t.described()}
	}
	return k
}

var importKind = kind[index.Entry]{
	name:    "ServiceImport",
	trim:    func(object any) *item[index.Entry] { return keep(entryOf(trimImport(object.(*serviceImport)))) },
	id:      func(e index.Entry) objectID { return objectID{e.Namespace(), e.Name()} },
	set:     (*publisher).setImport,
	remove:  func(h *publisher, id objectID) bool { return h.removeImport(index.NewKey(id.namespace, id.name)) },
	replace: (*publisher).replaceImports,
}

var sliceKind = kind[index.Slice]{
	name: "EndpointSlice",
	trim: func(object any) *item[index.Slice] { return keep(trimSlice(object.(*discoveryv1.EndpointSlice))) },
	id:   func(s index.Slice) objectID { return objectID{s.Namespace, s.Name} },
	set:  func(h *publisher, s index.Slice) bool { return h.state.SetSlice(s) },
	remove: func(h *publisher, id objectID) bool {
		return h.state.DeleteSlice(index.SliceID{Namespace: id.namespace, Name: id.name})
	},
	replace: func(h *publisher, namespace string, all []index.Slice) { h.state.ReplaceSlices(namespace, all) },
}

func newSink[T any](k kind[T], namespace string, h *publisher) *sink[T] {
	h.wait(k.name, namespace)
	return &sink[T]{kind: k, namespace: namespace, publisher: h, problems: map[objectID]reported{}}
}

func (s *sink[T]) idOf(k *item[T]) objectID {
	if k.faulty != nil {
		return k.faulty.objectID
	}
	return s.kind.id(*k.value)
}

// Keep implements reflector.Sink.
func (s *sink[T]) Keep(object any) (*item[T], error) { return s.kind.trim(object), nil }

// Set implements reflector.Sink.
func (s *sink[T]) Set(k *item[T]) {
	s.report(k)
	s.edit(change{version: k.version, at: k.changed}, func(h *publisher) bool {
		if k.value == nil {
			return s.kind.remove(h, k.faulty.objectID)
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
	s.edit(change{version: versionOf(m.GetResourceVersion())}, func(h *publisher) bool { return s.kind.remove(h, id) })
	return nil
}

// ReplaceAll implements reflector.Sink.
func (s *sink[T]) ReplaceAll(version string, atMost int, all iter.Seq[*item[T]]) {
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
	s.edit(change{version: versionOf(version)}, func(h *publisher) bool {
		s.kind.replace(h, s.namespace, values)
		return true
	})
}

func (s *sink[T]) edit(c change, f func(*publisher) bool) {
	c.kind, c.namespace = s.kind.name, s.namespace
	s.publisher.edit(c, f)
}

// report reports the problems of an object if they differ from the last ones. The problems of one
// object are described at most once a minute.
func (s *sink[T]) report(k *item[T]) {
	id := s.idOf(k)
	if k.faulty == nil || len(k.faulty.problems) == 0 {
		delete(s.problems, id)
		return
	}
	now, before, set := time.Now(), s.problems[id], hashSet(k.faulty.problems)
	if set == before.set {
		return
	}
	again := now.Sub(before.told) < describeEvery
	s.publisher.observer.Problems(s.kind.name, id.namespace+"/"+id.name, k.faulty.problems, again)
	if again {
		now = before.told
	}
	s.problems[id] = reported{set, now}
}

const describeEvery = time.Minute
