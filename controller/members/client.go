package members

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/follow"
)

// exportVersions are the versions of ServiceExport that can be read, the best first.
var exportVersions = []schema.GroupVersion{
	{Group: mcsv1beta1.GroupName, Version: "v1beta1"},
	{Group: mcsv1alpha1.GroupName, Version: "v1alpha1"},
}

// codecs read both versions of ServiceExport into the type of one: no field differs between them (A2).
var codecs = func() serializer.CodecFactory {
	s := runtime.NewScheme()
	for _, gv := range exportVersions {
		s.AddKnownTypes(gv, &mcsv1beta1.ServiceExport{}, &mcsv1beta1.ServiceExportList{})
		metav1.AddToGroupVersion(s, gv)
	}
	utilruntime.Must(corev1.AddToScheme(s)) // the types are compiled in: this cannot fail at run time
	utilruntime.Must(discoveryv1.AddToScheme(s))
	return serializer.NewCodecFactory(s)
}()

// versions gives clients for a resource in each of its versions.
func versions(config *rest.Config, client *http.Client, all ...schema.GroupVersion) ([]follow.Version, error) {
	var found []follow.Version
	for _, gv := range all {
		c := rest.CopyConfig(config)
		c.APIPath = "/apis"
		if gv.Group == "" {
			c.APIPath = "/api"
		}
		c.GroupVersion = &gv
		c.NegotiatedSerializer = boundedSerializer{codecs.WithoutConversion()}
		if gv.Group != mcsv1beta1.GroupName { // custom resources have no protobuf form
			c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
			c.ContentType = runtime.ContentTypeProtobuf
		}
		one, err := rest.RESTClientForConfigAndClient(c, client)
		if err != nil {
			return nil, err
		}
		found = append(found, follow.Version{GroupVersion: gv, Client: one})
	}
	return found, nil
}
