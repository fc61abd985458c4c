package peers

import (
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// trimExport rejects an export that does not match its CRD. A correct API server does not send one.
func trimExport(object any) (*merge.Export, bool) {
	of := object.(*serviceExport)
	export := merge.TrimExport(&mcsv1beta1.ServiceExport{ObjectMeta: of.ObjectMeta, Spec: of.Spec})
	if export == nil || of.Err != nil || !isName(of.Namespace, of.Name) {
		return nil, false
	}
	for _, is := range of.Status.Conditions {
		export.Invalid = export.Invalid || is.Type == mcsv1beta1.ServiceExportConditionValid && is.Status == metav1.ConditionFalse
	}
	return export, true
}

// isName reports whether both are DNS labels (RFC 1123), as the names of all Services and
// namespaces are. A malicious API server can send other names: a "Service" foo.eu of the peer acme
// would have the same slice names as foo of the peer eu.acme.
func isName(namespace, name string) bool {
	return len(validation.IsDNS1123Label(namespace))+len(validation.IsDNS1123Label(name)) == 0
}

// trimSlice rejects slices with host names instead of addresses, slices without a Service or with
// an invalid Service name, and slices that a controller is deleting. The last ones disappear when
// their finalizers are removed.
func (r *Registry) trimSlice(object any) (*discoveryv1.EndpointSlice, bool) {
	slice := object.(*discoveryv1.EndpointSlice)
	removed := ownership.OfSlice(slice) && slice.DeletionTimestamp != nil
	if slice.AddressType == discoveryv1.AddressTypeFQDN || removed || !isName(slice.Namespace, slice.Labels[mcsv1beta1.LabelServiceName]) {
		return nil, false
	}
	preference.Connect(slice) // The peer's choice is for the peer's own clients.
	merge.TrimSlice(slice)
	r.keepDescription(slice)
	slice.ResourceVersion, slice.Generation = "", 0 // they change with the fields that were trimmed
	r.strings.Slice(slice)
	return slice, true
}

// maxShared is the length of the longest description that several slices share in memory.
const maxShared = 1 << 10

// keepDescription shares the description on a slice with equal ones, or removes it if it is too long.
func (r *Registry) keepDescription(slice *discoveryv1.EndpointSlice) {
	text, found := slice.Annotations[mcs.AnnotationTerms]
	switch {
	case !found:
	case len(text) > merge.MaxTerms:
		delete(slice.Annotations, mcs.AnnotationTerms)
	case len(text) <= maxShared:
		slice.Annotations[mcs.AnnotationTerms] = *r.strings.One(&text)
	default:
		slice.Annotations[mcs.AnnotationTerms] = strings.Clone(text)
	}
}
