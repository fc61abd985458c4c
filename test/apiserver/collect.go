package apiserver

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Collect does what the garbage collector and the namespace controller of Kubernetes do, once, and reports whether there was something to do. They
// need some time for that: the caller decides when.
//
//   - An object whose owners have all gone goes.
//   - With the finalizer foregroundDeletion, what an object owns goes first if it blocks that (blockOwnerDeletion), and otherwise after it. With
//     orphan, it has no owner any more.
//   - All objects of a namespace that is deleted go, and then the namespace.
func (s *Server) Collect() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	owners := map[types.UID]bool{}
	for _, of := range s.stores {
		for _, one := range of.items {
			owners[one.object.GetUID()] = true
		}
	}
	did := false
	for _, of := range s.stores {
		for _, one := range of.sorted(everything) {
			did = s.collect(of, one.object, owners) || did
		}
	}
	for _, one := range s.namespaces().sorted(everything) {
		if n := one.object.(*corev1.Namespace); n.DeletionTimestamp != nil {
			did = s.endNamespace(n) || did
		}
	}
	return did
}

const collector, terminator = "kube-controller-manager/collector", "kube-controller-manager/namespaces"

func (s *Server) collect(of *store, object client.Object, owners map[types.UID]bool) bool {
	refs := object.GetOwnerReferences()
	ended := len(refs) > 0 && !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return owners[r.UID] })
	switch {
	case ended && object.GetDeletionTimestamp() == nil:
		s.end(of, object, collector)
		return true
	case object.GetDeletionTimestamp() == nil:
		return false
	case slices.Contains(object.GetFinalizers(), metav1.FinalizerDeleteDependents):
		did := false
		for _, one := range s.dependents(object, true) {
			if one.object.GetDeletionTimestamp() == nil {
				s.end(one.of, one.object, collector)
				did = true
			}
		}
		if len(s.dependents(object, true)) > 0 {
			return did
		}
		s.unblock(of, object, metav1.FinalizerDeleteDependents)
		return true
	case slices.Contains(object.GetFinalizers(), metav1.FinalizerOrphanDependents):
		for _, one := range s.dependents(object, false) {
			edited := one.object.DeepCopyObject().(client.Object)
			edited.SetOwnerReferences(slices.DeleteFunc(edited.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == object.GetUID() }))
			s.put(&call{of: one.of, verb: "patch", key: client.ObjectKeyFromObject(edited), manager: collector}, edited, false)
		}
		s.unblock(of, object, metav1.FinalizerOrphanDependents)
		return true
	}
	return false
}

type dependent struct {
	of     *store
	object client.Object
}

// dependents are the objects that an object owns; or those that block its deletion.
func (s *Server) dependents(owner client.Object, blocking bool) (all []dependent) {
	for _, of := range s.stores {
		for _, one := range of.sorted(everything) {
			if slices.ContainsFunc(one.object.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
				return r.UID == owner.GetUID() && (!blocking || r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion)
			}) {
				all = append(all, dependent{of, one.object})
			}
		}
	}
	return all
}

// end deletes an object, as far as its finalizers allow. A refusal by Admit is not remembered: the next call tries again.
func (s *Server) end(of *store, object client.Object, by string) {
	c := &call{of: of, verb: "delete", key: client.ObjectKeyFromObject(object), manager: by}
	_, _ = s.delete(c, metav1.DeleteOptions{})
}

// unblock removes a finalizer, and the object if it was the last one.
func (s *Server) unblock(of *store, object client.Object, finalizer string) {
	edited := object.DeepCopyObject().(client.Object)
	edited.SetFinalizers(slices.DeleteFunc(edited.GetFinalizers(), func(f string) bool { return f == finalizer }))
	c := &call{of: of, verb: "patch", key: client.ObjectKeyFromObject(object), manager: collector}
	if len(edited.GetFinalizers()) == 0 && !of.kept(edited) {
		s.drop(c, edited)
	} else {
		s.put(c, edited, false)
	}
}

// endNamespace deletes the objects of a namespace, and the namespace once there are none.
func (s *Server) endNamespace(n *corev1.Namespace) bool {
	in, left, did := everything, 0, false
	in.namespace = n.Name
	for _, of := range s.stores {
		if of.cluster {
			continue
		}
		for _, one := range of.sorted(in) {
			if one.object.GetDeletionTimestamp() == nil {
				s.end(of, one.object, terminator)
				did = true
			}
		}
		left += len(of.sorted(in))
	}
	if left > 0 {
		return did
	}
	of := s.namespaces()
	ended := n.DeepCopy()
	ended.Spec.Finalizers = nil
	if c := (&call{of: of, verb: "update", sub: "finalize", key: client.ObjectKeyFromObject(n), manager: terminator}); len(ended.Finalizers) == 0 {
		s.drop(c, ended)
	} else {
		s.put(c, ended, false)
	}
	return true
}
