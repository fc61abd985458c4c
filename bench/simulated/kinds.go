package simulated

import (
	"bytes"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// kind is a kind of objects that a Server has.
type kind struct {
	schema.GroupVersion
	name       string // in the singular, such as Service
	resource   string // as in the URL
	namespaced bool
	// custom resources have no protobuf encoding.
	custom  bool
	object  func() client.Object
	objects func() runtime.Object // an empty list
}

// kinds returns the kinds of a Server.
func kinds() []*kind {
	return []*kind{
		{
			GroupVersion: mcsv1beta1.SchemeGroupVersion, name: mcsv1beta1.ServiceExportKindName,
			resource: mcsv1beta1.ServiceExportPluralName, namespaced: true, custom: true,
			object: func() client.Object { return new(mcsv1beta1.ServiceExport) }, objects: func() runtime.Object { return new(mcsv1beta1.ServiceExportList) },
		},
		{
			GroupVersion: corev1.SchemeGroupVersion, name: "Service", resource: "services", namespaced: true,
			object: func() client.Object { return new(corev1.Service) }, objects: func() runtime.Object { return new(corev1.ServiceList) },
		},
		{
			GroupVersion: corev1.SchemeGroupVersion, name: "Namespace", resource: "namespaces",
			object: func() client.Object { return new(corev1.Namespace) }, objects: func() runtime.Object { return new(corev1.NamespaceList) },
		},
		{
			GroupVersion: discoveryv1.SchemeGroupVersion, name: "EndpointSlice", resource: "endpointslices", namespaced: true,
			object: func() client.Object { return new(discoveryv1.EndpointSlice) }, objects: func() runtime.Object { return new(discoveryv1.EndpointSliceList) },
		},
	}
}

// The encodings, by their media types.
var jsonEncoding, protobufEncoding = encodings()

// encodings are those of apimachinery. Encoders get objects with their apiVersion and kind, so that the scheme only has to know what
// each answer can contain.
func encodings() (json, protobuf runtime.SerializerInfo) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, mcsv1beta1.Install} {
		if err := add(scheme); err != nil {
			panic(err) // the types are compiled in
		}
	}
	all := serializer.NewCodecFactory(scheme).SupportedMediaTypes()
	json, hasJSON := runtime.SerializerInfoForMediaType(all, runtime.ContentTypeJSON)
	protobuf, hasProtobuf := runtime.SerializerInfoForMediaType(all, runtime.ContentTypeProtobuf)
	if !hasJSON || !hasProtobuf {
		panic("apimachinery lacks an encoding")
	}
	return json, protobuf
}

// native is the encoding that objects of a kind are kept in: the one that controllers ask for.
func (k *kind) native() runtime.SerializerInfo {
	if k.custom {
		return jsonEncoding
	}
	return protobufEncoding
}

// encode returns an object in an encoding, with the kind's apiVersion and kind.
func (k *kind) encode(in runtime.SerializerInfo, object runtime.Object) ([]byte, error) {
	object.GetObjectKind().SetGroupVersionKind(k.WithKind(k.name))
	return encode(in, object)
}

// encode returns an object that has its apiVersion and kind.
func encode(in runtime.SerializerInfo, object runtime.Object) ([]byte, error) {
	var text bytes.Buffer
	if err := in.Serializer.Encode(object, &text); err != nil {
		return nil, fmt.Errorf("encode %T: %w", object, err)
	}
	return bytes.Clone(text.Bytes()), nil // without the spare capacity, which would stay in memory
}

// decode returns the object of an encoding.
func (k *kind) decode(in runtime.SerializerInfo, text []byte) (client.Object, error) {
	object := k.object()
	gvk := k.WithKind(k.name)
	if _, _, err := in.Serializer.Decode(text, &gvk, object); err != nil {
		return nil, fmt.Errorf("decode %s: %w", k.name, err)
	}
	return object, nil
}

// is reports whether the object is of the kind.
func (k *kind) is(object client.Object) bool {
	return fmt.Sprintf("%T", k.object()) == fmt.Sprintf("%T", object)
}

// typed returns a metav1.Status, which errors are answered with.
func typed(status metav1.Status) *metav1.Status {
	status.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Status"))
	return &status
}
