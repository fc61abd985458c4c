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

func trimService(object any) (*terms, bool) {
	of := object.(*corev1.Service)
	t := merge.TrimService(of)
	key, err := json.Marshal(t) // which has no error: there are strings and numbers
	return &terms{ServiceSpec: *t, key: string(key)}, err == nil && isName(of.Namespace, of.Name)
}

// trimSlice leaves out slices with names instead of addresses, and slices of no Service. Of imported ones it also leaves out those whose
// Service has an invalid name, and those of a controller that are being deleted: they are gone as soon as their finalizers are. In the own
// cluster, kube-proxy uses a slice until it is gone.
func (s *Registry) trimSlice(label string) func(any) (*discoveryv1.EndpointSlice, bool) {
	return func(object any) (*discoveryv1.EndpointSlice, bool) {
		slice := object.(*discoveryv1.EndpointSlice)
		imported := label == mcsv1beta1.LabelServiceName
		if slice.AddressType == discoveryv1.AddressTypeFQDN || slice.Labels[label] == "" ||
			imported && (!isName(slice.Namespace, slice.Labels[label]) || ownership.OfSlice(slice) && slice.DeletionTimestamp != nil) {
			return nil, false
		}
		merge.TrimSlice(slice)
		slice.ResourceVersion, slice.Generation = "", 0 // which change with what was trimmed
		slice.Namespace = *s.pool.one(&slice.Namespace)
		slice.Endpoints = tight(slice.Endpoints)
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			e.NodeName, e.Zone = s.pool.one(e.NodeName), s.pool.one(e.Zone)
		}
		return slice, true
	}
}

// tight is a slice without room to grow: a decoder leaves up to half of it empty.
func tight[T any](all []T) []T {
	if len(all) == cap(all) || len(all) == 0 {
		return all
	}
	return append(make([]T, 0, len(all)), all...)
}
