package apiserver

import (
	"bytes"
	"errors"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// kind is a kind of objects that a Server has.
type kind struct {
	schema.GroupVersionKind
	resource   string
	cluster    bool                              // its objects are in no namespace
	custom     bool                              // it has a CRD, and no protobuf form
	status     bool                              // the status is a subresource
	upsert     bool                              // an update creates what is not there
	versioned  bool                              // an update has to name the version that it is based on
	returned   bool                              // a deletion answers with the object
	generation func(old, new client.Object) bool // whether a change counts in metadata.generation; nil if there is none
	// defaults sets what is not given, before managedFields are noted.
	defaults func(new client.Object)
	// prepare refuses what is wrong, and allocates. old is nil for a new object.
	prepare  func(s *Server, old, new client.Object) error
	released func(s *Server, gone client.Object) // returns what defaults has allocated
}

var kinds = []*kind{
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), resource: "namespaces", cluster: true, status: true, defaults: namespaceDefaults, prepare: prepareNamespace},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret"), resource: "secrets", defaults: secretDefaults, prepare: checkSecret},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Service"), resource: "services", status: true, upsert: true, returned: true, defaults: serviceDefaults, prepare: assign, released: releaseService},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Event"), resource: "events"},
	{GroupVersionKind: eventsv1.SchemeGroupVersion.WithKind("Event"), resource: "events"},
	{GroupVersionKind: coordinationv1.SchemeGroupVersion.WithKind("Lease"), resource: "leases", upsert: true, versioned: true},
	{GroupVersionKind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), resource: "endpointslices", generation: sliceChanged, defaults: sliceDefaults, prepare: checkSlice},
	{GroupVersionKind: mcsv1beta1.SchemeGroupVersion.WithKind("ServiceImport"), resource: "serviceimports", custom: true, status: true, versioned: true, generation: specChanged},
	{GroupVersionKind: mcsv1beta1.SchemeGroupVersion.WithKind("ServiceExport"), resource: "serviceexports", custom: true, status: true, versioned: true, generation: specChanged},
}

// scheme has the types of all kinds.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, mcsv1beta1.Install} {
		if err := add(s); err != nil {
			panic(err) // the types are compiled in
		}
	}
	return s
}()

var codecs = serializer.NewCodecFactory(scheme)

// media is the encoding that a client accepts of a kind.
func (k *kind) media(accepted string) runtime.SerializerInfo {
	if !k.custom && strings.Contains(accepted, runtime.ContentTypeProtobuf) {
		return protobufMedia
	}
	return jsonMedia
}

var jsonMedia, protobufMedia = mediaOf(runtime.ContentTypeJSON), mediaOf(runtime.ContentTypeProtobuf)

func mediaOf(name string) runtime.SerializerInfo {
	info, found := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), name)
	if !found {
		panic("apimachinery lacks " + name)
	}
	return info
}

// encode returns the text of an object, which gets its apiVersion and kind.
func (k *kind) encode(object runtime.Object, media runtime.SerializerInfo) ([]byte, error) {
	var text bytes.Buffer
	err := media.Serializer.Encode(k.typed(object, ""), &text)
	return text.Bytes(), err
}

// typed returns a copy of an object with apiVersion and kind. The copy shares everything else.
func (k *kind) typed(object runtime.Object, suffix string) runtime.Object {
	object = shallow(object)
	object.GetObjectKind().SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + suffix))
	return object
}

// empty returns an object without content, or a list of them.
func (k *kind) empty(suffix string) runtime.Object {
	object, err := scheme.New(k.GroupVersion().WithKind(k.Kind + suffix))
	if err != nil {
		panic(err) // the types are compiled in
	}
	return object
}

func (k *kind) new() client.Object { return k.empty("").(client.Object) }

func (k *kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.resource}
}

// kindAsResource is what a kube-apiserver names in conflicts of a deletion.
func (k *kind) kindAsResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Kind}
}

// etcdKey is where a kube-apiserver stores an object, of those that an update creates.
func (k *kind) etcdKey(key types.NamespacedName) string {
	if k.resource == "services" {
		return "/registry/services/specs/" + key.String()
	}
	return "/registry/" + k.resource + "/" + key.String()
}

func groupPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// fieldManagers record who set which field, for each kind and its status.
var fieldManagers = func() map[string]*managedfields.FieldManager {
	builtin, all := applyconfigurations.NewTypeConverter(scheme), map[string]*managedfields.FieldManager{}
	for _, k := range kinds {
		for _, sub := range []string{"", "status"} {
			m, err := managedfields.NewDefaultFieldManager(builtin, scheme, nothing{}, scheme, k.GroupVersionKind, k.GroupVersion(), sub, nil)
			if k.custom {
				m, err = managedfields.NewDefaultCRDFieldManager(customFields, nothing{}, nothing{}, nothing{}, k.GroupVersionKind, k.GroupVersion(), sub, nil)
			}
			must(err)
			all[k.String()+"/"+sub] = m
		}
	}
	return all
}()

// managed returns an object as managedFields are computed from it: a custom one without the fields that it does not have.
func (k *kind) managed(o client.Object) runtime.Object {
	if !k.custom {
		copied := o.DeepCopyObject()
		copied.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
		return copied
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	must(err)
	if o.GetName() == "" { // there is no object yet
		content = map[string]any{}
	}
	if status, ok := content["status"].(map[string]any); ok && len(status) == 0 {
		delete(content, "status")
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(k.GroupVersionKind)
	return u
}

// nothing sets no defaults, as kinds do, and converts nothing, as each kind has one version.
type nothing struct{}

// Default implements runtime.ObjectDefaulter.
func (nothing) Default(runtime.Object) {}

// New implements runtime.ObjectCreater.
func (nothing) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// Convert implements runtime.ObjectConvertor.
func (nothing) Convert(_, _, _ any) error { return errors.New("there is one version") }

// ConvertToVersion implements runtime.ObjectConvertor.
func (nothing) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (nothing) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (field, text string, err error) {
	return label, value, nil
}

// metaV1 is the type of what discovery and errors consist of.
func metaV1(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "v1"} }
