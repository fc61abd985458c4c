package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// kube-proxy finds a Service's endpoints by the label kubernetes.io/service-name of their slices. It ignores an update that takes that
// label away or gives it another value, and the deletion that follows: the endpoints stay in every node until kube-proxy starts again.
// Therefore the label of a slice with endpoints is never removed or changed. A slice that has to belong to another Service, or to none,
// is made anew under another name, and the former one is deleted while it has its label.

// foreignSliceManagers make slices of this cluster's own Services and Endpoints. What they label belongs to these Services.
var foreignSliceManagers = []string{"endpointslice-controller.k8s.io", SliceMirroring}

// SliceMirroring is who makes slices of the Endpoints of a Service without a selector.
const SliceMirroring = "endpointslicemirroring-controller.k8s.io"

// sliceService is the name of the Service that the endpoints of an import belong to; empty for none.
func (st State) sliceService() string {
	if st.Import.Spec.Type != mcsv1beta1.ClusterSetIP || KarmadaManaged(st.Import) {
		return ""
	}
	switch name := DerivedName(st.Import); KindOf(st.Import, st.Service) {
	case Ours:
		return name
	case Absent: // A former Service goes on until it is gone. Without one, the slices wait for the new one with the right label.
		if former := st.formerService(); former != "" || len(validation.IsDNS1035Label(name)) > 0 {
			return former
		}
		return name
	case ReadOnly:
		if len(st.Service.Spec.Selector) == 0 && len(clusterIPs(st.Service)) > 0 {
			return name
		}
		return "" // With a selector it has this cluster's own pods: imported endpoints would change what cluster.local means (C41).
	default:
		return st.formerService()
	}
}

// formerService is the name of a Service of ours that serves on under a former name; empty where there is none.
func (st State) formerService() string {
	for _, svc := range otherServices(st) {
		if st.serves(svc) {
			return svc.Name
		}
	}
	return ""
}

// Associate gives a new slice of an import the label of its Service ("" for none), and a name that it has in the cluster home with no other
// value of that label: a watch that was interrupted can show a deletion and a creation under one name as a change of the label.
func Associate(home string, imp types.NamespacedName, slice *discoveryv1.EndpointSlice, service string) {
	if service != naturalName(imp.Namespace, imp.Name) {
		slice.Name = renamed(home, slice.Name, service)
	}
	if service != "" {
		slice.Labels[discoveryv1.LabelServiceName] = service
	}
}

func (st State) associate(slice *discoveryv1.EndpointSlice, service string) {
	Associate(st.homeID(), types.NamespacedName{Namespace: st.Import.Namespace, Name: st.Import.Name}, slice, service)
}

// homeID is this cluster's id; empty in no clusterset.
func (st State) homeID() string {
	if st.Clusterset == nil {
		return ""
	}
	return st.Clusterset.Home
}

// renamed is the name of a slice with another hash. This cluster's id is a part of it: the slices of a peer have their names from that
// peer, and no peer gives one that is made here.
func renamed(home, name, service string) string {
	sum := sha256.Sum256([]byte(home + "/" + name + "/" + service))
	return name[:len(name)-hashLength] + hex.EncodeToString(sum[:])[:hashLength]
}

// Misassociated is true for a slice that belongs to another Service than the given one ("" for none).
func Misassociated(slice *discoveryv1.EndpointSlice, service string) bool {
	has := slice.Labels[discoveryv1.LabelServiceName]
	return has != "" && has != service
}

// sliceSync compares the slices of ours that an import should have with those that it has.
type sliceSync struct {
	st      State
	service string // that they belong to
	have    map[string]*discoveryv1.EndpointSlice
	wanted  map[string]bool
	changes Changes
	notes   []string // on those that cannot be had
}

func newSliceSync(st State) *sliceSync {
	s := &sliceSync{st: st, service: st.sliceService(), have: make(map[string]*discoveryv1.EndpointSlice, len(st.Slices)), wanted: map[string]bool{}}
	for _, slice := range st.Slices {
		s.have[slice.Name] = slice
	}
	return s
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
		s.notes = append(s.notes, leftOut(want, "an EndpointSlice of the name "+want.Name+" exists and is not this controller's: delete it"))
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
		s.notes = append(s.notes, leftOut(slice, reason))
	}
	return refused
}

// deleteRest plans the end of the slices of ours that have not been added, but for those that have to be kept.
func (s *sliceSync) deleteRest(kept func(*discoveryv1.EndpointSlice) bool) {
	s.changes.DeleteSlices = slices.DeleteFunc(ourSlices(s.st), func(slice *discoveryv1.EndpointSlice) bool {
		return slice.DeletionTimestamp == nil && (s.wanted[slice.Name] || kept(slice)) || s.refused(slice)
	})
}

// othersMirrored are the slices of an import that others made: one of ours for each of theirs that belongs to no Service yet (R8). Their
// own are never labelled: that label could never be taken back.
func othersMirrored(st State) *sliceSync {
	s := newSliceSync(st)
	alias := aliasOfUnnamed(st.Import.Spec.Ports)
	for _, source := range st.Slices {
		if s.service != "" && s.mirrors(source) {
			s.add(mirrorOfOther(st, source, s.service, alias))
		}
	}
	s.deleteRest(func(*discoveryv1.EndpointSlice) bool { return false })
	slices.SortFunc(s.changes.CreateSlices, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.changes.UpdateSlices, func(a, b Edit[*discoveryv1.EndpointSlice]) int { return cmp.Compare(a.Old.Name, b.Old.Name) })
	return s
}

func (s *sliceSync) mirrors(source *discoveryv1.EndpointSlice) bool {
	return !SliceIsOurs(source, s.st.Import) && source.Labels[discoveryv1.LabelServiceName] != s.service &&
		source.DeletionTimestamp == nil && source.AddressType != discoveryv1.AddressTypeFQDN &&
		!slices.Contains(foreignSliceManagers, source.Labels[discoveryv1.LabelManagedBy])
}

// mirrorOfOther is a copy of a slice for kube-proxy alone. It has no source cluster: peers do not read it.
func mirrorOfOther(st State, source *discoveryv1.EndpointSlice, service, alias string) *discoveryv1.EndpointSlice {
	copied := source.DeepCopy()
	slice := &discoveryv1.EndpointSlice{AddressType: source.AddressType, Endpoints: copied.Endpoints}
	slice.Namespace, slice.Name = st.Import.Namespace, st.Import.Name+"."+strings.ToLower(string(source.AddressType))+"-"+hashOf(source.Name)
	slice.Labels = map[string]string{mcsv1beta1.LabelServiceName: st.Import.Name, discoveryv1.LabelManagedBy: Manager}
	slice.Annotations = map[string]string{AnnotationCopyOf: source.Name}
	maps.Copy(slice.Annotations, only(source.Annotations, corev1.EndpointsLastChangeTriggerTime))
	for _, p := range copied.Ports {
		slice.Ports = append(slice.Ports, withAlias(p, alias)...)
	}
	st.associate(slice, service)
	return slice
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashLength]
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
