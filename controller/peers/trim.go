package peers

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// trimExport leaves out what no API server sends: an export that is not what its CRD says.
func trimExport(object any) (*merge.Export, bool) {
	of := object.(*serviceExport)
	export := merge.TrimExport(&mcsv1beta1.ServiceExport{ObjectMeta: of.ObjectMeta, Spec: of.Spec})
	return export, export != nil && of.Err == nil && isName(of.Namespace, of.Name)
}

// isName is true where both are DNS labels (RFC 1123), as the names of all Services and namespaces are. What an API server says need
// not be so: a "Service" foo.eu of the peer acme would share the names of its slices with foo of the peer eu.acme.
func isName(namespace, name string) bool {
	return len(validation.IsDNS1123Label(namespace))+len(validation.IsDNS1123Label(name)) == 0
}

func trimService(object any) (*sharedSpec, bool) {
	of := object.(*corev1.Service)
	t := merge.TrimService(of)
	key, err := json.Marshal(t) // which has no error: there are strings and numbers
	return &sharedSpec{ServiceSpec: *t, key: string(key)}, err == nil && isName(of.Namespace, of.Name)
}

// trimSlice leaves out slices with names instead of addresses, slices of no Service or of one with an invalid name, and those that a controller
// is about to remove: they are gone as soon as their finalizers are.
func (r *Registry) trimSlice(object any) (*discoveryv1.EndpointSlice, bool) {
	slice := object.(*discoveryv1.EndpointSlice)
	removed := ownership.OfSlice(slice) && slice.DeletionTimestamp != nil
	if slice.AddressType == discoveryv1.AddressTypeFQDN || removed || !isName(slice.Namespace, slice.Labels[mcsv1beta1.LabelServiceName]) {
		return nil, false
	}
	merge.TrimSlice(slice)
	slice.ResourceVersion, slice.Generation = "", 0 // which change with what was trimmed
	r.strings.Slice(slice)
	return slice, true
}
