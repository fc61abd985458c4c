// Package ownership decides to which owner an object belongs. The controller and the DNS plugin
// must decide in the same way. In an import that the controller owns, only the controller's
// EndpointSlices count.
//
// Users and tools easily set and remove labels and owner references. So one mark of several, and the
// name, decide where a wrong decision would cost endpoints or addresses.
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

// OfImport reports whether the controller made the ServiceImport, or a user handed it over by
// setting the label. All other ServiceImports belong to their creators: a user, Karmada, Cilium.
// Cilium gives its imports the labels of exports, which can be this one. The controller's record is as good as the label, which other tools
// overwrite: to take an import over from the controller, remove both.
func OfImport(imp metav1.Object) bool {
	ours := imp.GetLabels()[mcs.LabelManagedBy] == mcs.ControllerName || has(imp.GetAnnotations(), mcs.AnnotationExports)
	return ours && !ByKarmada(imp) && !byCilium(imp)
}

// ByKarmada reports whether Karmada propagated the object to this cluster.
func ByKarmada(object metav1.Object) bool {
	return object.GetLabels()[mcs.LabelKarmadaManaged] == "true" || object.GetAnnotations()[mcs.AnnotationKarmadaWork] != ""
}

// byCilium reports whether Cilium keeps the ServiceImport. An import of the controller never takes
// this annotation over from an export (mcs.Reserved). Cilium replaces all annotations of an import
// that it takes over. So if the controller's record is still there, somebody else has added the
// annotation, and the import stays the controller's.
func byCilium(imp metav1.Object) bool {
	return has(imp.GetAnnotations(), mcs.AnnotationCiliumFamilies) && !has(imp.GetAnnotations(), mcs.AnnotationExports)
}

// Keeper returns the name of the other implementation that keeps a ServiceImport in this cluster,
// or "". Such an implementation makes the Service or answers DNS itself, and replaces what others
// write. all are the EndpointSlices with the import's name. Users with permission to write slices
// can mark one as Submariner's, so slices do not count for an import of the controller.
func Keeper(imp metav1.Object, all []*discoveryv1.EndpointSlice) string {
	ofSubmariner := func(slice *discoveryv1.EndpointSlice) bool {
		return slice.Labels[discoveryv1.LabelManagedBy] == mcs.SubmarinerSlices
	}
	switch {
	case byCilium(imp):
		return Cilium
	case OfImport(imp):
		return ""
	case has(imp.GetLabels(), mcs.LabelSubmarinerNamespace), slices.ContainsFunc(all, ofSubmariner):
		return "Submariner"
	case has(imp.GetAnnotations(), mcs.AnnotationKosmosAddress):
		return "Kosmos"
	}
	return ""
}

// Other returns the name of the other system whose ServiceImport it is: Karmada, or its Keeper. It
// returns "" for an import of the controller or of a user.
func Other(imp metav1.Object, all []*discoveryv1.EndpointSlice) string {
	if ByKarmada(imp) {
		return "Karmada"
	}
	return Keeper(imp, all)
}

// Cilium is the Keeper that writes spec.ips itself.
const Cilium = "Cilium"

func has(marks map[string]string, key string) bool {
	_, found := marks[key]
	return found
}

// KarmadasSlice reports whether Karmada propagates the EndpointSlice for a ServiceImport. Karmada
// gives it the label of the derived Service and not that of the import, by which a DNS server finds
// the endpoints of a headless import. A slice that an OverridePolicy has given the label of the
// import needs nothing more.
func KarmadasSlice(slice metav1.Object) bool {
	labels := slice.GetLabels()
	return labels[discoveryv1.LabelManagedBy] == mcs.KarmadaSlices && labels[mcsv1beta1.LabelServiceName] == ""
}

// KarmadasCluster returns the exporting cluster of a slice of Karmada's for an import, or "" if the
// name of the slice does not contain it. Karmada writes the cluster nowhere else in a member. The
// name is imported-<cluster>-<original name>, and Kubernetes names an original slice by its Service
// and a random suffix without dashes.
func KarmadasCluster(slice, imp string) string {
	name, ok := strings.CutPrefix(slice, "imported-")
	end := strings.LastIndex(name, "-"+imp+"-")
	if !ok || end < 0 {
		return ""
	}
	return name[:end]
}

// OfSlice reports whether an EndpointSlice has the controller's label.
func OfSlice(slice metav1.Object) bool {
	return slice.GetLabels()[discoveryv1.LabelManagedBy] == mcs.ControllerName
}

// SliceIsOurs reports whether the controller made the EndpointSlice for an import. A slice without
// the controller's label is identified by its owner, which is the import, and by its name. imp can
// be nil: then only the label counts.
func SliceIsOurs(slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport) bool {
	return OfSlice(slice) || imp != nil && isSliceName(slice.Name, imp.Name) && ownedByImport(slice, imp)
}

// SliceIsFrom reports whether an EndpointSlice has the name and the owner of the slices that the
// controller makes for one cluster.
func SliceIsFrom(cluster string, slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport) bool {
	stem := SliceStem(imp.Name, cluster, slice.AddressType)
	return strings.HasPrefix(slice.Name, stem) && IsHash(slice.Name[len(stem):]) && ownedByImport(slice, imp)
}

// Unexpected reports whether an EndpointSlice must be deleted: it belongs to a derived Service, or to a Service that the
// controller made later under the import's own name, the controller owns this Service and its import, and the slice is not the
// import's. The whole slice
// is deleted while it has the label. A selector that was set on the Service leaves such slices
// behind, and Endpoints from which Kubernetes makes more slices: Kubernetes deletes neither after
// the Service has lost its selector. The slice's owners do not matter: users with permission to
// write EndpointSlices can name any owner.
func Unexpected(slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport, svc *corev1.Service) bool {
	switch {
	case slice.Labels[discoveryv1.LabelServiceName] != svc.Name || !OfImport(imp):
		return false
	case svc.Name == imp.Name && NativeService(svc):
		// One that is younger was made for this Service, perhaps by a user who is about to take it over.
		return slice.CreationTimestamp.Before(&svc.CreationTimestamp) && (slice.Labels[mcs.LabelNativeOf] != imp.Name || !OfSlice(slice))
	case KindOf(imp, svc) != Ours:
		return false
	}
	return slice.Labels[mcsv1beta1.LabelServiceName] != imp.Name || !SliceIsOurs(slice, imp)
}

// Misassociated reports whether a slice belongs to a Service other than the given one ("" for
// none).
func Misassociated(slice *discoveryv1.EndpointSlice, service string) bool {
	has := slice.Labels[discoveryv1.LabelServiceName]
	return has != "" && has != service
}

// ServiceKind is how the controller treats the Service with an import's derived name.
type ServiceKind int

const (
	// Absent means that no such Service exists. The controller creates it.
	Absent ServiceKind = iota
	// Ours means that the controller made the Service for an import of this name, and keeps it in
	// sync.
	Ours
	// ReadOnly means that Karmada manages the Service, or that a user or another controller (the
	// mcs-api reference controllers, Cilium) named it in the annotation. Its addresses are copied
	// to ips. The Service is never written.
	ReadOnly
	// Foreign means that the Service has the name by chance. It is neither read nor written (R9 is
	// the risk).
	Foreign
)

// KindOf applies the rules in the order of the constants.
func KindOf(imp *mcsv1beta1.ServiceImport, svc *corev1.Service) ServiceKind {
	named := imp.Annotations[mcs.AnnotationDerivedService] == DerivedName(imp)
	switch {
	case svc == nil:
		return Absent
	case Derived(imp, svc):
		return Ours
	// Users with permission to write Services can set Karmada's label, so the label alone is not
	// sufficient.
	case ByKarmada(imp), ByKarmada(svc) && !OfImport(imp) && !DerivedByUs(imp):
		return ReadOnly
	case named && !DerivedByUs(imp) && len(OwnerImports(svc)) == 0:
		return ReadOnly
	default:
		return Foreign
	}
}

// Derived reports whether the controller made a Service for an import: it has the controller's label and the import as its owner, or one
// of them and the default name. Other tools overwrite labels, and `kubectl delete --cascade=orphan` and restores from a backup remove
// owners. The other mark is then repaired. Whoever can set one of them can set both.
func Derived(imp *mcsv1beta1.ServiceImport, svc *corev1.Service) bool {
	labelled := svc.Labels[mcs.LabelManagedBy] == mcs.ControllerName
	owned := slices.ContainsFunc(svc.OwnerReferences, func(ref metav1.OwnerReference) bool { return isImport(ref) && ref.Name == imp.Name })
	switch {
	case svc.Namespace != imp.Namespace:
		return false
	case labelled && owned:
		return true
	case svc.Name != DefaultDerivedName(imp.Namespace, imp.Name) || svc.Name != DerivedName(imp) || ByKarmada(svc) ||
		svc.Spec.ClusterIP == corev1.ClusterIPNone || takenOver(svc) && !onlySelects(svc, imp):
		return false
	}
	return labelled && !OwnedByImport(svc) || owned && DerivedByUs(imp)
}

// onlySelects reports whether nothing says that a Service is somebody else's but its selector, while it has the addresses that the import
// has recorded as its own.
func onlySelects(svc *corev1.Service, imp *mcsv1beta1.ServiceImport) bool {
	recorded := DerivedByUs(imp) && imp.Annotations[mcs.AnnotationClusterIPs] == strings.Join(svc.Spec.ClusterIPs, ",")
	return recorded && svc.Spec.Type != corev1.ServiceTypeExternalName && !annotated(svc)
}

// DerivedByUs reports whether a derived Service of the controller has given the import its
// addresses.
func DerivedByUs(imp *mcsv1beta1.ServiceImport) bool {
	_, recorded := imp.Annotations[mcs.AnnotationClusterIPs]
	return recorded
}

// OwnerImports returns the names of the ServiceImports that own a Service made by the controller. One that has lost its owner, as after
// kubectl delete --cascade=orphan, belongs to the import that its name says, unless the name is a shortened one. It returns none for any
// other Service.
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
	name, derived := strings.CutPrefix(svc.GetName(), derivedPrefix)
	if hash := name[strings.LastIndex(name, "-")+1:]; derived && !IsHash(hash) && Orphaned(svc) {
		names = append(names, name)
	}
	return names
}

// Orphaned reports whether nothing owns an object.
func Orphaned(object metav1.Object) bool { return len(object.GetOwnerReferences()) == 0 }

// WithOwner returns the owner references with a reference to the import: with its current UID and
// the given version, which is the served version. An import that is created again under its name
// takes over its objects. blockOwnerDeletion is not set, because it requires the permission to set
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

// HasOwner reports whether WithOwner would leave the owners as they are. It copies nothing.
func HasOwner(owners []metav1.OwnerReference, imp *mcsv1beta1.ServiceImport, apiVersion string) bool {
	for _, ref := range owners {
		if isImport(ref) && ref.Name == imp.Name {
			return ref.APIVersion == apiVersion && ref.UID == imp.UID && ref.Controller != nil && *ref.Controller
		}
	}
	return false
}

func ownedByImport(slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport) bool {
	return slices.ContainsFunc(slice.OwnerReferences, func(ref metav1.OwnerReference) bool { return isImport(ref) && ref.Name == imp.Name })
}

// OwnedByImport reports whether any ServiceImport owns an object.
func OwnedByImport(object metav1.Object) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), isImport)
}

// isImport compares kind and group, but not the version: the import can have had another served
// version when the object was made (R4 describes the bug).
func isImport(ref metav1.OwnerReference) bool {
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	return ref.Kind == mcsv1beta1.ServiceImportKindName && group == mcsv1beta1.GroupName
}
