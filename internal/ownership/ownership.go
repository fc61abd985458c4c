// Package ownership answers one question: whose object is this? The controller and the DNS plugin must give the same answer. In an import
// that the controller keeps, only the controller's EndpointSlices count.
//
// Labels are quickly set and removed by users. Where a wrong answer would cost endpoints or addresses, names and owner references decide.
package ownership

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// OfImport is true for a ServiceImport that the controller made, or that a user handed over by the label. All others belong to their
// makers: a user, Karmada, Cilium.
func OfImport(imp metav1.Object) bool {
	return imp.GetLabels()[mcs.LabelManagedBy] == mcs.ControllerName && !ByKarmada(imp)
}

// ByKarmada is true for an object that Karmada put into this cluster.
func ByKarmada(object metav1.Object) bool {
	return object.GetLabels()[mcs.LabelKarmadaManaged] == "true" || object.GetAnnotations()[mcs.AnnotationKarmadaWork] != ""
}

// OfSlice is true for an EndpointSlice with the controller's label.
func OfSlice(slice metav1.Object) bool {
	return slice.GetLabels()[discoveryv1.LabelManagedBy] == mcs.ControllerName
}

// SliceIsOurs is true for an EndpointSlice that the controller made for an import. Without its label it is recognized by its owner, which
// is the import, and by its name. imp may be nil: then only the label counts.
func SliceIsOurs(slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport) bool {
	return OfSlice(slice) || imp != nil && isSliceName(slice.Name, imp.Name) && ownedByImport(slice, imp)
}

// SliceIsFrom is true for an EndpointSlice with the name and the owner of those that the controller makes of one cluster.
func SliceIsFrom(cluster string, slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport) bool {
	stem := SliceStem(imp.Name, cluster, slice.AddressType)
	return strings.HasPrefix(slice.Name, stem) && IsHash(slice.Name[len(stem):]) && ownedByImport(slice, imp)
}

// Unexpected is true for an EndpointSlice that must be deleted: it belongs to our derived Service of an import of ours, and is not the import's.
// It is deleted whole, while it has the label. A selector leaves such slices behind, and Endpoints from which more are made: Kubernetes
// takes neither back from a Service that has lost its selector. The slice's owners do not matter: users who can write a slice can name any.
func Unexpected(slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport, svc *corev1.Service) bool {
	if slice.Labels[discoveryv1.LabelServiceName] != svc.Name || !OfImport(imp) || KindOf(imp, svc) != Ours {
		return false
	}
	return slice.Labels[mcsv1beta1.LabelServiceName] != imp.Name || !SliceIsOurs(slice, imp)
}

// Misassociated is true for a slice that belongs to another Service than the given one ("" for none).
func Misassociated(slice *discoveryv1.EndpointSlice, service string) bool {
	has := slice.Labels[discoveryv1.LabelServiceName]
	return has != "" && has != service
}

// ServiceKind is what the Service with an import's derived name is to the controller.
type ServiceKind int

const (
	// Absent: there is no such Service. The controller makes it.
	Absent ServiceKind = iota
	// Ours: the controller made it for an import of this name, and keeps it in sync.
	Ours
	// ReadOnly: Karmada keeps it, or a user or another controller (the mcs-api reference controllers, Cilium) named it in the
	// annotation. Its addresses go to ips. It is never written.
	ReadOnly
	// Foreign: a Service that has the name by chance. It is neither read nor written (R9 is the hazard).
	Foreign
)

// KindOf applies the rules in the order of the constants.
func KindOf(imp *mcsv1beta1.ServiceImport, svc *corev1.Service) ServiceKind {
	named := imp.Annotations[mcs.AnnotationDerivedService] == DerivedName(imp)
	switch {
	case svc == nil:
		return Absent
	case slices.Contains(OwnerImports(svc), imp.Name):
		return Ours
	case ByKarmada(imp), ByKarmada(svc) && !OfImport(imp) && !DerivedByUs(imp): // users who can write Services can set its label
		return ReadOnly
	case named && !DerivedByUs(imp) && len(OwnerImports(svc)) == 0:
		return ReadOnly
	default:
		return Foreign
	}
}

// DerivedByUs is true once a derived Service of the controller has given the import its addresses.
func DerivedByUs(imp *mcsv1beta1.ServiceImport) bool {
	_, recorded := imp.Annotations[mcs.AnnotationClusterIPs]
	return recorded
}

// OwnerImports are the names of the ServiceImports that own a Service made by the controller; none for any other Service.
func OwnerImports(svc metav1.Object) []string {
	if svc.GetLabels()[mcs.LabelManagedBy] != mcs.ControllerName {
		return nil
	}
	var names []string
	for _, ref := range svc.GetOwnerReferences() {
		if isImport(ref) {
			names = append(names, ref.Name)
		}
	}
	return names
}

// WithOwner returns the owner references with one of the import: by its present UID and in the given version, which is the one served. An
// import that is made again under its name takes its objects over. There is no blockOwnerDeletion: it would need the permission to set
// finalizers.
func WithOwner(owners []metav1.OwnerReference, imp *mcsv1beta1.ServiceImport, apiVersion string) []metav1.OwnerReference {
	owner := metav1.OwnerReference{
		APIVersion: apiVersion, Kind: mcsv1beta1.ServiceImportKindName, Name: imp.Name, UID: imp.UID, Controller: new(true),
	}
	owners = slices.Clone(owners)
	for i, ref := range owners {
		if isImport(ref) && ref.Name == imp.Name {
			owner.BlockOwnerDeletion = ref.BlockOwnerDeletion
			owners[i] = owner
			return owners
		}
	}
	return append(owners, owner)
}

func ownedByImport(slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport) bool {
	return slices.ContainsFunc(slice.OwnerReferences, func(ref metav1.OwnerReference) bool { return isImport(ref) && ref.Name == imp.Name })
}

// isImport compares kind and group, not the version: the import may have been served in another one when the object was made (R4 has the
// bug).
func isImport(ref metav1.OwnerReference) bool {
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	return ref.Kind == mcsv1beta1.ServiceImportKindName && group == mcsv1beta1.GroupName
}
