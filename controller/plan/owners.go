package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// Kind says what the Service of the derived name is to us.
type Kind int

const (
	// Absent: there is none; ours to make.
	Absent Kind = iota
	// Ours: made by us for an import of this name. Kept in sync.
	Ours
	// ReadOnly: kept by Karmada, or named in the annotation by a user or another controller (the mcs-api reference
	// controllers, Cilium). Its addresses go to ips; it is never written.
	ReadOnly
	// Foreign: a Service that happens to have the name. Neither read nor written (R9 is the hazard).
	Foreign
)

// KindOf applies the rules in the order of the constants.
func KindOf(imp *mcsv1beta1.ServiceImport, svc *corev1.Service) Kind {
	named := imp.Annotations[AnnotationDerivedService] == DerivedName(imp)
	switch {
	case svc == nil:
		return Absent
	case slices.Contains(OwnerImports(svc), imp.Name):
		return Ours
	case ownership.ByKarmada(imp), ownership.ByKarmada(svc) && !ImportIsOurs(imp) && !madeByUs(imp): // who writes Services can set its label
		return ReadOnly
	case named && !madeByUs(imp) && len(OwnerImports(svc)) == 0:
		return ReadOnly
	default:
		return Foreign
	}
}

// madeByUs is true once a derived Service of ours has given the import its addresses.
func madeByUs(imp *mcsv1beta1.ServiceImport) bool {
	_, recorded := imp.Annotations[AnnotationClusterIPs]
	return recorded
}

func sliceStem(name, cluster string, kind discoveryv1.AddressType) string {
	return fmt.Sprintf("%s.%s.%s-", name, cluster, strings.ToLower(string(kind)))
}

const hashLength = 10

func isHash(text string) bool {
	return len(text) == hashLength && strings.Trim(text, "0123456789abcdef") == ""
}

// OwnerImports are the names of the ServiceImports that own a Service made by us; none for any other Service.
func OwnerImports(svc metav1.Object) []string {
	if svc.GetLabels()[LabelManagedBy] != Manager {
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

// isImport compares kind and group, not the version: the import may have been served in another one when the Service was made
// (R4 has the bug).
func isImport(ref metav1.OwnerReference) bool {
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	return ref.Kind == mcsv1beta1.ServiceImportKindName && group == mcsv1beta1.GroupName
}

// ImportIsOurs is true for an import that this controller made, or that a user handed over by the label. All others are their
// makers': a user's, Karmada's, Cilium's.
func ImportIsOurs(imp *mcsv1beta1.ServiceImport) bool { return ownership.OfImport(imp) }

// SliceIsOurs is true for what Mirror gave here. One whose mark was edited away is known by its owner, the import, and by its name; with
// nil, it is not.
func SliceIsOurs(slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport) bool {
	return ownership.OfSlice(slice) || imp != nil && mirroredName(slice.Name, imp.Name) && ownedByImport(slice, imp)
}

func ownedByImport(slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport) bool {
	return slices.ContainsFunc(slice.OwnerReferences, func(ref metav1.OwnerReference) bool { return isImport(ref) && ref.Name == imp.Name })
}

// mirroredName is true for a name that Mirror gives to a slice of an import: nobody else's has dots and a hash like that.
func mirroredName(slice, imp string) bool {
	at := strings.LastIndex(slice, "-")
	return strings.HasPrefix(slice, imp+".") && at > 0 && isHash(slice[at+1:])
}

// mirroredFrom is true for a slice that is named and owned as what Mirror gives of a cluster. Labels are quickly set by others, and
// quickly edited away.
func mirroredFrom(cluster string, slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport) bool {
	stem := sliceStem(imp.Name, cluster, slice.AddressType)
	return strings.HasPrefix(slice.Name, stem) && isHash(slice.Name[len(stem):]) && ownedByImport(slice, imp)
}

func ownedBy(owners []metav1.OwnerReference, imp *mcsv1beta1.ServiceImport, apiVersion string) []metav1.OwnerReference {
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

// Stray is true for a slice that has to go because it belongs to our Service of an import of ours, without being that import's. It is
// deleted whole, while it has the label. A selector leaves such slices behind, and Endpoints from which more are made: Kubernetes takes
// neither back from a Service that has lost its selector. The slice's owners do not matter: users who can write a slice can name any.
func Stray(slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport, svc *corev1.Service) bool {
	if slice.Labels[discoveryv1.LabelServiceName] != svc.Name || !ImportIsOurs(imp) || KindOf(imp, svc) != Ours {
		return false
	}
	return slice.Labels[mcsv1beta1.LabelServiceName] != imp.Name || !SliceIsOurs(slice, imp)
}

const derivedPrefix = "derived-"

// DerivedName is the name of the import's derived Service: what the annotation says, else derived-<name> as in Karmada (K1).
// A name that no Service can bear (too long, dotted) is shortened with a hash of its namespace and name; the separator in the
// hashed text keeps «a/bc» and «ab/c» apart.
func DerivedName(imp *mcsv1beta1.ServiceImport) string {
	plain := derivedPrefix + imp.Name
	if ownership.ByKarmada(imp) {
		return plain // Karmada does not shorten: what does not fit does not exist there either.
	}
	if name := imp.Annotations[AnnotationDerivedService]; name != "" {
		return name
	}
	return naturalName(imp.Namespace, imp.Name)
}

// naturalName is the name of an import's derived Service unless an annotation gives another.
func naturalName(namespace, name string) string {
	plain := derivedPrefix + name
	if len(validation.IsDNS1035Label(plain)) == 0 {
		return plain
	}
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	hash := "-" + hex.EncodeToString(sum[:])[:10]
	stem := strings.ReplaceAll(plain, ".", "-")
	stem = stem[:min(len(stem), validation.DNS1035LabelMaxLength-len(hash))]
	return strings.TrimRight(stem, "-") + hash
}
