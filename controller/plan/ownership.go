package plan

import (
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/ownership"
)

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
