package ownership

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// sliceAnnotations are the controller's annotations on a slice. Others can add more.
var sliceAnnotations = []string{corev1.EndpointsLastChangeTriggerTime, mcs.AnnotationHiddenPorts, mcs.AnnotationCopyOf, mcs.AnnotationFailing, mcs.AnnotationTerms}

// Overlay returns the slice from desired.ImportedSlices, with everything that others added to the
// existing slice, and with its owner and the label of its derived Service. A slice's address type
// cannot change: a slice with another type has another name.
func Overlay(have, want *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	slice := have.DeepCopy()
	if slice.Labels == nil {
		slice.Labels = map[string]string{}
	}
	delete(slice.Labels, mcs.LabelStandby)
	maps.Copy(slice.Labels, want.Labels)
	for _, key := range mcs.ProxyLabels {
		delete(slice.Labels, key)
	}
	for _, key := range sliceAnnotations {
		delete(slice.Annotations, key)
	}
	if slice.Annotations == nil {
		slice.Annotations = map[string]string{}
	}
	maps.Copy(slice.Annotations, want.Annotations)
	copied := want.DeepCopy()
	slice.Endpoints, slice.Ports = copied.Endpoints, copied.Ports
	return slice
}

// Covers reports whether Overlay would leave the labels and annotations of the existing slice as they are.
// It copies nothing.
func Covers(have, want *discoveryv1.EndpointSlice) bool {
	for _, key := range mcs.ProxyLabels {
		if _, found := have.Labels[key]; found {
			return false
		}
	}
	return agree(have.Labels, want.Labels, mcs.LabelStandby) && agree(have.Annotations, want.Annotations, sliceAnnotations...)
}

// agree reports whether have contains all of want, and none of the keys that want does not have.
func agree(have, want map[string]string, keys ...string) bool {
	for key, value := range want {
		if has, found := have[key]; !found || has != value {
			return false
		}
	}
	for _, key := range keys {
		_, has := have[key]
		if _, wanted := want[key]; has && !wanted {
			return false
		}
	}
	return true
}

// SameSlice reports whether the edited slice needs no write. nil and empty are equal: the API
// server does not distinguish them.
func SameSlice(old, edited *discoveryv1.EndpointSlice) bool {
	return maps.Equal(old.Labels, edited.Labels) && maps.Equal(old.Annotations, edited.Annotations) &&
		equality.Semantic.DeepEqual(old.OwnerReferences, edited.OwnerReferences) &&
		equality.Semantic.DeepEqual(old.Ports, edited.Ports) && equality.Semantic.DeepEqual(old.Endpoints, edited.Endpoints)
}
