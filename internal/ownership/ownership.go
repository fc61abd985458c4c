// Package ownership says which objects are the controller's. The controller and the DNS plugin have to agree on that: of an import that
// the controller keeps, nobody else's EndpointSlices count.
package ownership

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Controller is the controller's name, the value of the two labels below.
	Controller = "multicluster-controller"
	// LabelManagedBy marks the ServiceImports and derived Services that the controller made, or was handed.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelSliceManagedBy marks its EndpointSlices.
	LabelSliceManagedBy = discoveryv1.LabelManagedBy

	// LabelKarmadaManaged and AnnotationKarmadaWork mark what Karmada put into a member cluster (K13).
	LabelKarmadaManaged   = "karmada.io/managed"
	AnnotationKarmadaWork = "work.karmada.io/name"
)

// OfImport is true for a ServiceImport that the controller made, or that a user handed over by the label. All others are their
// makers': a user's, Karmada's, Cilium's.
func OfImport(imp metav1.Object) bool {
	return imp.GetLabels()[LabelManagedBy] == Controller && !ByKarmada(imp)
}

// OfSlice is true for an EndpointSlice with the controller's mark.
func OfSlice(slice metav1.Object) bool { return slice.GetLabels()[LabelSliceManagedBy] == Controller }

// ByKarmada is true for an object that Karmada put into this cluster.
func ByKarmada(object metav1.Object) bool {
	return object.GetLabels()[LabelKarmadaManaged] == "true" || object.GetAnnotations()[AnnotationKarmadaWork] != ""
}
