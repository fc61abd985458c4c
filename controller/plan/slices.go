package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// sliceSync compares the slices of ours that an import should have with those that it has.
type sliceSync struct {
	st      State
	service string // that they belong to
	have    map[string]*discoveryv1.EndpointSlice
	wanted  map[string]bool
	changes *Changes
}

func (c *Changes) ofSlices(st State, d Slices) {
	s := &sliceSync{st: st, service: d.Service, have: make(map[string]*discoveryv1.EndpointSlice, len(st.Slices)), wanted: map[string]bool{}, changes: c}
	for _, slice := range st.Slices {
		s.have[slice.Name] = slice
	}
	for _, want := range d.Wanted {
		s.add(want)
	}
	if d.Complete {
		s.deleteRest(d.Awaited)
	}
	if d.Awaited != nil {
		s.keepAwaited(d.Awaited)
	}
	if ImportIsOurs(st.Import) || KindOf(st.Import, st.Service) == Ours { // Of another Service, its maker heals what it leaks.
		c.Heal = s.leaked()
	}
	c.Retry = c.Retry || len(c.Notes) > 0
}

// add plans what is missing of one slice that should be there, with its final name and labels.
func (s *sliceSync) add(want *discoveryv1.EndpointSlice) {
	s.wanted[want.Name] = true
	old := s.have[want.Name]
	switch {
	case s.refused(want):
	case old == nil:
		ownSlice(want, s.st)
		s.changes.CreateSlices = append(s.changes.CreateSlices, want)
	case old.DeletionTimestamp != nil: // It is made anew when it is gone.
	case !SliceIsOurs(old, s.st.Import):
		s.changes.Notes = append(s.changes.Notes, leftOut(want, "an EndpointSlice of the name "+want.Name+" exists and is not this controller's: delete it"))
	case Misassociated(old, s.service):
		s.wanted[want.Name] = false
	default:
		edited := unsealed(Overlay(old, want))
		ownSlice(edited, s.st)
		if !sameWhole(old, edited) {
			s.changes.UpdateSlices = append(s.changes.UpdateSlices, Edit[*discoveryv1.EndpointSlice]{old, edited})
		}
	}
}

// refused is true for a slice that the server does not take as it should be: that is noted, and nothing waits for it.
func (s *sliceSync) refused(slice *discoveryv1.EndpointSlice) bool {
	reason, refused := s.st.SlicesRefused[slice.Name]
	if refused {
		s.changes.Notes = append(s.changes.Notes, leftOut(slice, reason))
	}
	return refused
}

// deleteRest plans the end of the slices of ours that have not been added, but for those that have to be kept.
func (s *sliceSync) deleteRest(awaited func(*discoveryv1.EndpointSlice) string) {
	s.changes.DeleteSlices = slices.DeleteFunc(ourSlices(s.st), func(slice *discoveryv1.EndpointSlice) bool {
		return slice.DeletionTimestamp == nil && (s.wanted[slice.Name] || awaited != nil && awaited(slice) != "") || s.refused(slice)
	})
}

// Move is a slice whose content is not known here: it is copied under another name, with the label of another Service, and then deleted.
type Move struct {
	Slice         *discoveryv1.EndpointSlice
	Name, Service string
}

// Moved is the slice as it is to be created: live is the one that is there, with its content.
func (m Move) Moved(live *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	slice := live.DeepCopy()
	slice.ObjectMeta = metav1.ObjectMeta{
		Namespace: live.Namespace, Name: m.Name, Labels: slice.Labels, Annotations: slice.Annotations, OwnerReferences: slice.OwnerReferences,
	}
	delete(slice.Labels, discoveryv1.LabelServiceName)
	if m.Service != "" {
		slice.Labels[discoveryv1.LabelServiceName] = m.Service
	}
	return slice
}

// keepAwaited gives slices that wait for their cluster the labels back that somebody has edited, and moves them where they belong to
// another Service by now. What else such a slice had, only its cluster knows.
func (s *sliceSync) keepAwaited(clusterOf func(*discoveryv1.EndpointSlice) string) {
	for _, slice := range s.st.Slices {
		cluster := clusterOf(slice)
		switch {
		case cluster == "" || slice.DeletionTimestamp != nil:
		case s.refused(slice):
		case Misassociated(slice, s.service):
			s.changes.MoveSlices = append(s.changes.MoveSlices, Move{slice, renamed(s.st.homeID(), slice.Name, s.service), s.service})
		default:
			s.mark(slice, cluster)
		}
	}
	slices.SortFunc(s.changes.MoveSlices, func(a, b Move) int { return cmp.Compare(a.Slice.Name, b.Slice.Name) })
	slices.SortFunc(s.changes.Slices, func(a, b Edit[*discoveryv1.EndpointSlice]) int { return cmp.Compare(a.Old.Name, b.Old.Name) })
}

// evicted are those of others that lead to our Service of an import of ours.
func evicted(st State) []*discoveryv1.EndpointSlice {
	all := slices.DeleteFunc(slices.Concat(st.Strays, st.Slices), func(slice *discoveryv1.EndpointSlice) bool { return !Stray(slice, st.Import, st.Service) })
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Stray is true for a slice that has to go because it belongs to our Service of an import of ours, without being that import's. It is
// deleted whole, while it has the label. A selector leaves such slices behind, and Endpoints from which more are made: Kubernetes takes
// neither back from a Service that has lost its selector. The slice's owners do not matter: users who can write a slice can name any.
func Stray(slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport, svc *corev1.Service) bool {
	if slice.Labels[discoveryv1.LabelServiceName] != svc.Name || !ImportIsOurs(imp) || KindOf(imp, svc) != Ours {
		return false
	}
	return slice.Labels[mcsv1beta1.LabelServiceName] != imp.Name || !SliceIsOurs(slice, imp)
}

// EvictedEvent is told of slices that led to our Service and have been deleted.
func EvictedEvent(svc *corev1.Service, names []string) Event {
	return Event{corev1.EventTypeWarning, EventEndpointsTaken, fmt.Sprintf(
		"EndpointSlices that are not this import's belonged to Service %s and were deleted: %s. A user has edited the Service, or created the slices",
		svc.Name, clipTo(200, strings.Join(names, ", ")))}
}

// Leak is what kube-proxy may still serve although it is no longer there: the endpoints of a slice that belonged to a derived Service and
// has lost the label since, or is gone.
type Leak struct {
	Slice   string
	Service string
	Type    discoveryv1.AddressType
}

// leaked are the leaks that no slice of ours mends by having its label again.
func (s *sliceSync) leaked() []Leak {
	return slices.DeleteFunc(slices.Clone(s.st.Leaks), func(l Leak) bool {
		have := s.have[l.Slice]
		return l.Service == s.service && s.wanted[l.Slice] ||
			have != nil && have.Labels[discoveryv1.LabelServiceName] == l.Service && have.AddressType == l.Type
	})
}

// ownSlice lets the slice go with its import (C36).
func ownSlice(slice *discoveryv1.EndpointSlice, st State) {
	slice.OwnerReferences = ownedBy(slice.OwnerReferences, st.Import, st.CRD)
}

// ourSlices are those of ours, but for those that are about to be gone. One that is being deleted and has a finalizer is not: it would
// stay, with whatever endpoints somebody gives it.
func ourSlices(st State) []*discoveryv1.EndpointSlice {
	var ours []*discoveryv1.EndpointSlice
	for _, slice := range st.Slices {
		if SliceIsOurs(slice, st.Import) && (slice.DeletionTimestamp == nil || len(slice.Finalizers) > 0) {
			ours = append(ours, slice)
		}
	}
	slices.SortFunc(ours, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return ours
}

// mark plans the labels that a slice of a cluster should have and somebody has edited.
func (s *sliceSync) mark(slice *discoveryv1.EndpointSlice, cluster string) {
	edited := slice.DeepCopy()
	edited.Labels[discoveryv1.LabelManagedBy], edited.Labels[mcsv1beta1.LabelSourceCluster] = Manager, cluster
	if s.service != "" {
		edited.Labels[discoveryv1.LabelServiceName] = s.service
	}
	for _, key := range proxyLabels {
		delete(edited.Labels, key)
	}
	if !maps.Equal(slice.Labels, edited.Labels) {
		s.changes.Slices = append(s.changes.Slices, Edit[*discoveryv1.EndpointSlice]{slice, edited})
	}
}
func leftOut(slice *discoveryv1.EndpointSlice, reason string) string {
	return fmt.Sprintf("endpoints of %s: %s", slice.Labels[mcsv1beta1.LabelSourceCluster], clipTo(200, reason))
}
