package plan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// foreignSliceManagers own the label kubernetes.io/service-name on their slices: they would fight back, and it is how the
// cluster's own Services work.
var foreignSliceManagers = []string{"endpointslice-controller.k8s.io", SliceMirroring}

// SliceMirroring is who makes slices of the Endpoints of a Service without a selector.
const SliceMirroring = "endpointslicemirroring-controller.k8s.io"

// leadSlices leads an import's slices to the Service of that name; those of an import of ours only if they are ours, too. Whoever may
// label a slice, or a Service, whose labels Kubernetes copies to its slices, could otherwise give endpoints to it.
func leadSlices(st State, name string) []Edit[*discoveryv1.EndpointSlice] {
	if !ImportIsOurs(st.Import) {
		return labelSlices(st.Slices, name)
	}
	var own, others []*discoveryv1.EndpointSlice
	for _, slice := range st.Slices {
		if SliceIsOurs(slice, st.Import) {
			own = append(own, slice)
		} else {
			others = append(others, slice)
		}
	}
	return append(labelSlices(own, name), labelSlices(others, "", name)...)
}

// labelSlices leads the slices to a Service: kube-proxy finds a Service's endpoints by kubernetes.io/service-name (R8). With an
// empty name it takes that label away where it leads to one of stale, also from a slice that is being deleted: somebody may hold it for
// ever.
func labelSlices(all []*discoveryv1.EndpointSlice, name string, stale ...string) []Edit[*discoveryv1.EndpointSlice] {
	var edits []Edit[*discoveryv1.EndpointSlice]
	for _, slice := range all {
		has := slice.Labels[discoveryv1.LabelServiceName]
		if has == name || slices.Contains(foreignSliceManagers, slice.Labels[discoveryv1.LabelManagedBy]) {
			continue
		}
		if name == "" && !slices.Contains(stale, has) || name != "" && slice.DeletionTimestamp != nil {
			continue
		}
		edited := slice.DeepCopy()
		if name == "" {
			delete(edited.Labels, discoveryv1.LabelServiceName)
		} else {
			edited.Labels[discoveryv1.LabelServiceName] = name
		}
		edits = append(edits, Edit[*discoveryv1.EndpointSlice]{slice, edited})
	}
	slices.SortFunc(edits, func(a, b Edit[*discoveryv1.EndpointSlice]) int { return cmp.Compare(a.Old.Name, b.Old.Name) })
	return edits
}

// evicted are those of others that lead to our Service of an import of ours.
func evicted(st State) []*discoveryv1.EndpointSlice {
	all := slices.DeleteFunc(slices.Concat(st.Strays, st.Slices), func(slice *discoveryv1.EndpointSlice) bool { return !Stray(slice, st.Import, st.Service) })
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Stray is true for a slice that has to go because it leads to our Service of an import of ours, without being that import's. A selector
// leaves such slices behind, and Endpoints from which more are made: Kubernetes takes neither back from a Service that has lost its
// selector. One that bears the import's name, and is no controller's of Kubernetes', only loses the label that leads it there. Whom it
// names as its owners does not matter: who writes a slice names whom he likes.
func Stray(slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport, svc *corev1.Service) bool {
	if slice.Labels[discoveryv1.LabelServiceName] != svc.Name || !ImportIsOurs(imp) || KindOf(imp, svc) != Ours {
		return false
	}
	return slice.Labels[mcsv1beta1.LabelServiceName] != imp.Name ||
		!SliceIsOurs(slice, imp) && slices.Contains(foreignSliceManagers, slice.Labels[discoveryv1.LabelManagedBy])
}

// EvictedEvent is told of slices that led to our Service and have been deleted.
func EvictedEvent(svc *corev1.Service) Event {
	return Event{corev1.EventTypeWarning, EventEndpointsTaken,
		"EndpointSlices that are not this import's led to Service " + svc.Name + " and were deleted: somebody has edited it, or made them"}
}
