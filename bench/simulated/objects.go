package simulated

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// The objects are as a kube-apiserver returns them: with all defaults, and with managedFields, which are a large part of what is read.

type name struct{ namespace, name string }

func (n name) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: n.namespace, Name: n.name}
}

// namespace returns a Namespace of the cluster with an ID. The UID of kube-system identifies a cluster, so it depends on the ID.
func namespace(name, cluster string) *corev1.Namespace {
	n := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}, UID: uid(cluster + "/" + name),
		},
		Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
	return managed(n, "kubectl")
}

// announcing returns the namespace of a peer's controller. There is no heartbeat before the first one of Beat.
func (w World) announcing(peer int) *corev1.Namespace {
	n := namespace(SystemNamespace, w.ID(peer))
	n.Annotations = map[string]string{mcs.AnnotationClusterID: w.ID(peer), mcs.AnnotationVersion: "simulated"}
	if !w.Undescribed {
		n.Annotations[mcs.AnnotationTerms] = "simulated"
	}
	return managed(n, mcs.ControllerName)
}

// describe sets the description of a Service on its slice.
func describe(slice *discoveryv1.EndpointSlice, svc *corev1.Service) {
	slice.Annotations[mcs.AnnotationTerms] = merge.TrimService(svc).Terms()
}

func service(at name, clusterIP string, port int32) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: at.meta(),
		Spec: corev1.ServiceSpec{
			Ports:     []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(8080)}},
			Selector:  map[string]string{"app": at.name},
			ClusterIP: clusterIP, ClusterIPs: []string{clusterIP}, Type: corev1.ServiceTypeClusterIP, SessionAffinity: corev1.ServiceAffinityNone,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
			InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyCluster),
		},
	}
	return managed(svc, "kubectl")
}

// export returns a ServiceExport with the conditions that the peer's controller wrote.
func export(at name) *mcsv1beta1.ServiceExport {
	e := &mcsv1beta1.ServiceExport{ObjectMeta: at.meta()}
	e.Generation = 1
	for _, kind := range []mcsv1beta1.ServiceExportConditionType{mcsv1beta1.ServiceExportConditionValid, mcsv1beta1.ServiceExportConditionReady} {
		e.Status.Conditions = append(e.Status.Conditions, metav1.Condition{
			Type: string(kind), Status: metav1.ConditionTrue, ObservedGeneration: 1, LastTransitionTime: created, Reason: string(kind), Message: "as long as a message is",
		})
	}
	e.Status.Conditions = append(e.Status.Conditions, metav1.Condition{
		Type: string(mcsv1beta1.ServiceExportConditionConflict), Status: metav1.ConditionFalse, ObservedGeneration: 1, LastTransitionTime: created,
		Reason: string(mcsv1beta1.ServiceExportReasonNoConflicts), Message: "as long as a message is",
	})
	return managed(e, "kubectl")
}

// emptySlice returns the EndpointSlice that the controller of a cluster makes for its own Service, with no endpoints yet.
func emptySlice(service name, cluster, called string, headless bool) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.namespace, Name: called, Generation: 1,
			Labels: map[string]string{
				mcsv1beta1.LabelServiceName: service.name, mcsv1beta1.LabelSourceCluster: cluster, discoveryv1.LabelManagedBy: mcs.ControllerName,
			},
			Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-01-01T00:00:00Z"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceImportKindName, Name: service.name,
				UID: "00000000-0000-4000-8000-000000000000", Controller: new(true), BlockOwnerDeletion: new(false),
			}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	if !headless {
		slice.Labels[discoveryv1.LabelServiceName] = ownership.DefaultDerivedName(service.namespace, service.name)
	}
	return managed(slice, mcs.ControllerName)
}

func endpoint(address string, i int) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses:  []string{address},
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
		NodeName:   new(fmt.Sprintf("node-%d", i%50)), Zone: new(fmt.Sprintf("zone-%d", i%3)),
	}
}

// managed sets managedFields that are about as long as those of an API server. Nothing reads them.
func managed[T client.Object](object T, manager string) T {
	object.SetManagedFields(nil)
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // the types of Kubernetes marshal
	}
	fields := map[string]any{}
	if err := json.Unmarshal(text, &fields); err != nil {
		panic(err)
	}
	delete(fields["metadata"].(map[string]any), "namespace")
	delete(fields["metadata"].(map[string]any), "name")
	owned, err := fieldpath.SetFromValue(value.NewValueInterface(fields)).ToJSON()
	if err != nil {
		panic(err)
	}
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &created, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(string(owned)),
	}})
	return object
}
