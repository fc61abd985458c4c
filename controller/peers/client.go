package peers

import (
	"net/http"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/lenient"
	"github.com/clusterset-dns/multicluster/internal/reflector"
)

// serviceExport contains the fields that are read from a ServiceExport. They are the same in both
// versions (A2). The times of conditions are not read: one that the CRD accepts and Go does not would
// cost the export.
type serviceExport struct {
	lenient.Base
	Spec   mcsv1beta1.ServiceExportSpec `json:"spec"`
	Status struct {
		Conditions []struct {
			Type   mcsv1beta1.ServiceExportConditionType `json:"type"`
			Status metav1.ConditionStatus                `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// DeepCopyObject implements runtime.Object. It returns a shallow copy, because an export that was
// read is never changed.
func (e *serviceExport) DeepCopyObject() runtime.Object {
	c := *e
	return &c
}

// codecs decode the types that are built into Kubernetes.
var codecs = func() serializer.CodecFactory {
	s := runtime.NewScheme()
	utilruntime.Must(coordinationv1.AddToScheme(s)) // the types are compiled in, so this cannot fail
	utilruntime.Must(discoveryv1.AddToScheme(s))
	return serializer.NewCodecFactory(s)
}()

// versions returns a client for each version of a resource. What it watches waits for the budget.
func versions(config *rest.Config, client *http.Client, limit *budget, all ...schema.GroupVersion) ([]reflector.Version, error) {
	var found []reflector.Version
	for _, gv := range all {
		c := rest.CopyConfig(config)
		c.APIPath = "/apis"
		c.GroupVersion = &gv
		if gv.Group == mcsv1beta1.GroupName {
			c.NegotiatedSerializer = boundedSerializer{lenient.Serializer[serviceExport](mcsv1beta1.ServiceExportKindName), limit}
		} else { // custom resources have no protobuf encoding
			c.NegotiatedSerializer = boundedSerializer{codecs.WithoutConversion(), limit}
			c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
			c.ContentType = runtime.ContentTypeProtobuf
		}
		one, err := rest.RESTClientForConfigAndClient(c, client)
		if err != nil {
			return nil, err
		}
		found = append(found, reflector.Version{GroupVersion: gv, Client: one})
	}
	return found, nil
}
