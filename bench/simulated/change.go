package simulated

import (
	"crypto/sha256"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// created is the time of objects that have none.
var created = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// complete sets what an API server sets in each object.
func complete(object client.Object, version uint64) client.Object {
	if object.GetUID() == "" {
		object.SetUID(uid(fmt.Sprintf("%T/%s/%s/%d", object, object.GetNamespace(), object.GetName(), version)))
	}
	if at := object.GetCreationTimestamp(); at.IsZero() {
		object.SetCreationTimestamp(created)
	}
	return object
}

// uid returns the UID for a text, in the form of those of an API server.
func uid(text string) types.UID {
	sum := sha256.Sum256([]byte(text))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

// Apply stores an object as it is given, and the watches see it. An object that is there already keeps its UID and its time. If nothing
// else differs, nothing happens, as in an API server. It changes the object.
func (s *Server) Apply(object client.Object) error {
	of, err := s.of(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	version := s.version + 1
	before := of.get(object.GetNamespace(), object.GetName())
	if before != nil {
		old, err := before.object()
		if err != nil {
			return err
		}
		object.SetUID(old.GetUID())
		object.SetCreationTimestamp(old.GetCreationTimestamp())
	}
	after, err := newItem(of.kind, complete(object, version), version)
	if err != nil {
		return err
	}
	if before != nil && after.same(before) {
		return nil
	}
	s.version = version
	return of.put(after, s.options.History)
}

// Delete deletes the object with the kind, namespace and name of the given one. One that is not there is an error.
func (s *Server) Delete(object client.Object) error {
	of, err := s.of(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := of.get(object.GetNamespace(), object.GetName())
	if before == nil {
		return absent(of.kind, object.GetNamespace(), object.GetName())
	}
	s.version++
	return of.remove(before, s.version, s.options.History)
}

// Edit changes an object that exists, by the given function.
func Edit[T client.Object](s *Server, namespace, name string, edit func(T)) error {
	var object T
	of, err := s.of(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	before := of.get(namespace, name)
	s.mu.Unlock()
	if before == nil {
		return absent(of.kind, namespace, name)
	}
	old, err := before.object()
	if err != nil {
		return err
	}
	edit(old.(T))
	return s.Apply(old)
}

func absent(k *kind, namespace, name string) error {
	return fmt.Errorf("there is no %s %s/%s", k.name, namespace, name)
}

// Forget forgets all changes: a watch can then only begin at the current version, or with all objects. Running watches go on. It is
// what the restart of an API server does.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.stores {
		of.forget(len(of.events))
	}
}
