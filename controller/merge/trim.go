package merge

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// TrimSlice keeps only the parts of a slice that an import needs (C38), in place: names of Pods and
// hints for another cluster's nodes have no meaning elsewhere. Equal conditions of endpoints share
// their values in memory.
func TrimSlice(slice *discoveryv1.EndpointSlice) {
	slice.ManagedFields, slice.OwnerReferences, slice.Finalizers = nil, nil, nil
	slice.Annotations = mcs.Only(slice.Annotations, corev1.EndpointsLastChangeTriggerTime, mcs.AnnotationHiddenPorts, mcs.AnnotationTerms)
	slice.Labels = mcs.Only(slice.Labels, discoveryv1.LabelServiceName, mcsv1beta1.LabelServiceName, mcsv1beta1.LabelSourceCluster)
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		slice.Endpoints[i] = discoveryv1.Endpoint{
			Addresses: slices.Clip(e.Addresses), Hostname: e.Hostname, NodeName: e.NodeName, Zone: e.Zone,
			Conditions: discoveryv1.EndpointConditions{
				Ready: sharedBool(e.Conditions.Ready), Serving: sharedBool(e.Conditions.Serving), Terminating: sharedBool(e.Conditions.Terminating),
			},
		}
	}
}

var isTrue, isFalse = new(true), new(false)

func sharedBool(b *bool) *bool {
	switch {
	case b == nil:
		return nil
	case *b:
		return isTrue
	default:
		return isFalse
	}
}
