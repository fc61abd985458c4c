package apiserver

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Collect does what the garbage collector and the namespace controller of Kubernetes do, once, and reports whether something has changed. They
// need some time for that: the caller decides when.
//
//   - An object whose owners have all gone goes, also if another object has got the owner's name, or if the owner is in another namespace. If one
//     of them is there, the references to the others go. An owner of a kind that the Server does not have lets everything stay.
//   - With the finalizer foregroundDeletion, what an object owns goes first, unless it has another owner, and the object does not wait for
//     what does not block that (blockOwnerDeletion). With orphan, what it owns stays without it.
//   - All objects of a namespace that is deleted go, and then the namespace.
func (s *Server) Collect() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.version
	for _, of := range s.stores {
		if of.resource == "events" { // Kubernetes leaves them alone
			continue
		}
		for _, one := range of.sorted(everything) {
			if of.items[one.NamespacedName] == one { // else it has changed meanwhile, and it is looked at the next time
				s.collect(of, one.object)
			}
		}
	}
	for _, one := range s.namespaces().sorted(everything) {
		if n := one.object.(*corev1.Namespace); n.DeletionTimestamp != nil {
			s.endNamespace(n)
		}
	}
	return s.version != before
}

const collector, terminator = "kube-controller-manager/collector", "kube-controller-manager/namespaces"

func (s *Server) collect(of *store, object client.Object) {
	has := func(finalizer string) bool { return slices.Contains(object.GetFinalizers(), finalizer) }
	switch deleted := object.GetDeletionTimestamp() != nil; {
	case deleted && has(metav1.FinalizerDeleteDependents):
		if !slices.ContainsFunc(s.dependents(object), func(d dependent) bool { return d.blocks(object) }) {
			s.edit(of, object, func(o client.Object) { without(o, metav1.FinalizerDeleteDependents) })
		}
	case deleted && has(metav1.FinalizerOrphanDependents):
		for _, one := range s.dependents(object) {
			s.edit(one.of, one.object, func(o client.Object) {
				disown(o, func(r metav1.OwnerReference) bool { return r.UID == object.GetUID() })
			})
		}
		s.edit(of, object, func(o client.Object) { without(o, metav1.FinalizerOrphanDependents) })
	case !deleted && len(object.GetOwnerReferences()) > 0:
		s.judge(of, object)
	}
}

// judge deletes an object that has lost its owners, or takes the references to some of them from it.
func (s *Server) judge(of *store, object client.Object) {
	stays, waited := false, false
	ended := map[types.UID]bool{}
	for _, r := range object.GetOwnerReferences() {
		owner, known := s.owner(of, object, r)
		switch {
		case !known:
			return
		case owner == nil:
			ended[r.UID] = true
		case owner.GetDeletionTimestamp() != nil && slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents):
			ended[r.UID], waited = true, true
		default:
			stays = true
		}
	}
	owned := s.dependents(object)
	switch {
	case stays:
		if len(ended) > 0 {
			s.edit(of, object, func(o client.Object) { disown(o, func(r metav1.OwnerReference) bool { return ended[r.UID] }) })
		}
	case waited && len(owned) > 0:
		if slices.ContainsFunc(owned, dependent.waits) { // perhaps for this object
			s.edit(of, object, unblock)
			object = of.items[client.ObjectKeyFromObject(object)].object
		}
		s.end(of, object, metav1.DeletePropagationForeground, collector)
	case slices.Contains(object.GetFinalizers(), metav1.FinalizerOrphanDependents):
		s.end(of, object, metav1.DeletePropagationOrphan, collector)
	case slices.Contains(object.GetFinalizers(), metav1.FinalizerDeleteDependents):
		s.end(of, object, metav1.DeletePropagationForeground, collector)
	default:
		s.end(of, object, metav1.DeletePropagationBackground, collector)
	}
}

// owner returns what a reference means, or nil if it is not there. What it means is not known of a kind that the Server does not have,
// nor of one in a namespace if the object that it owns is in none.
func (s *Server) owner(of *store, object client.Object, r metav1.OwnerReference) (owner client.Object, known bool) {
	gvk := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
	at := slices.IndexFunc(s.stores, func(of *store) bool { return of.GroupVersionKind == gvk })
	if at < 0 || of.cluster && !s.stores[at].cluster {
		return nil, false
	}
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: r.Name}
	if s.stores[at].cluster {
		key.Namespace = ""
	}
	if have := s.stores[at].items[key]; have != nil && have.object.GetUID() == r.UID {
		return have.object, true
	}
	return nil, true
}

type dependent struct {
	of     *store
	object client.Object
}

// blocks reports whether the deletion of an owner in the foreground waits for the object.
func (d dependent) blocks(owner client.Object) bool {
	return slices.ContainsFunc(d.object.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.UID == owner.GetUID() && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
	})
}

// waits reports whether the object is deleted in the foreground.
func (d dependent) waits() bool {
	return d.object.GetDeletionTimestamp() != nil && slices.Contains(d.object.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// dependents are the objects that an object owns.
func (s *Server) dependents(owner client.Object) (all []dependent) {
	for _, of := range s.stores {
		for _, one := range of.sorted(everything) {
			if slices.ContainsFunc(one.object.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() }) {
				all = append(all, dependent{of, one.object})
			}
		}
	}
	return all
}

func disown(o client.Object, gone func(metav1.OwnerReference) bool) {
	o.SetOwnerReferences(slices.DeleteFunc(o.GetOwnerReferences(), gone))
}

func unblock(o client.Object) {
	refs := o.GetOwnerReferences()
	for i := range refs {
		if refs[i].BlockOwnerDeletion != nil {
			refs[i].BlockOwnerDeletion = ptr(false)
		}
	}
	o.SetOwnerReferences(refs)
}

func without(o client.Object, finalizer string) {
	o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == finalizer }))
}

// edit changes the metadata of an object, which goes if a finalizer was the last thing that kept it. A refusal is not remembered: the next
// call tries again.
func (s *Server) edit(of *store, object client.Object, change func(client.Object)) {
	edited := object.DeepCopyObject().(client.Object)
	change(edited)
	c := &call{of: of, verb: "patch", key: client.ObjectKeyFromObject(object), manager: collector}
	_, _ = s.change(c, object, edited, false)
}

// end deletes an object, as far as its finalizers allow.
func (s *Server) end(of *store, object client.Object, how metav1.DeletionPropagation, by string) {
	c := &call{of: of, verb: "delete", key: client.ObjectKeyFromObject(object), manager: by}
	_, _ = s.delete(c, metav1.DeleteOptions{PropagationPolicy: &how})
}

// endNamespace deletes the objects of a namespace, and the namespace once there are none.
func (s *Server) endNamespace(n *corev1.Namespace) {
	in, left := everything, 0
	in.namespace = n.Name
	for _, of := range s.stores {
		if of.cluster {
			continue
		}
		for _, one := range of.sorted(in) {
			s.end(of, one.object, metav1.DeletePropagationBackground, terminator)
		}
		left += len(of.sorted(in))
	}
	if left > 0 || len(n.Spec.Finalizers) == 0 {
		return
	}
	of := s.namespaces()
	ended := n.DeepCopy()
	ended.Spec.Finalizers = nil
	c := &call{of: of, verb: "update", sub: "finalize", key: client.ObjectKeyFromObject(n), manager: terminator}
	if len(ended.Finalizers) == 0 {
		s.drop(c, ended)
	} else {
		s.put(c, ended, false)
	}
}
