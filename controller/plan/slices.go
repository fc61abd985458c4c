package plan

import (
	"cmp"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// foreignSliceManagers own the label kubernetes.io/service-name on their slices: they would fight back, and it is how the
// cluster's own Services work.
var foreignSliceManagers = []string{"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"}

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
// empty name it takes that label away where it leads to one of stale.
func labelSlices(all []*discoveryv1.EndpointSlice, name string, stale ...string) []Edit[*discoveryv1.EndpointSlice] {
	var edits []Edit[*discoveryv1.EndpointSlice]
	for _, slice := range all {
		has := slice.Labels[discoveryv1.LabelServiceName]
		if has == name || slice.DeletionTimestamp != nil || slices.Contains(foreignSliceManagers, slice.Labels[discoveryv1.LabelManagedBy]) {
			continue
		}
		if name == "" && !slices.Contains(stale, has) {
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
