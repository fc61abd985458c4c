package world

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Service has one port, http, unless an edit gives others.
func Service(name string, edits ...func(*corev1.ServiceSpec)) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	for _, change := range edits {
		change(&svc.Spec)
	}
	return svc
}

// Headless is an edit of Service.
func Headless(spec *corev1.ServiceSpec) { spec.ClusterIP = corev1.ClusterIPNone }

// DualStack is an edit of Service.
func DualStack(spec *corev1.ServiceSpec) {
	spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
	spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
}

// OnlyIPv6 is an edit of Service.
func OnlyIPv6(spec *corev1.ServiceSpec) {
	spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
	spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
}

// Ports gives an edit of Service.
func Ports(ports ...corev1.ServicePort) func(*corev1.ServiceSpec) {
	return func(spec *corev1.ServiceSpec) { spec.Ports = ports }
}

// Selecting gives an edit of Service that selects the pods of an app.
func Selecting(app string) func(*corev1.ServiceSpec) {
	return func(spec *corev1.ServiceSpec) { spec.Selector = map[string]string{"app": app} }
}

// Export is a ServiceExport.
func Export(name string) *mcsv1beta1.ServiceExport {
	return &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Import is a ServiceImport that a user writes.
func Import(name string, kind mcsv1beta1.ServiceImportType, ips ...string) *mcsv1beta1.ServiceImport {
	return &mcsv1beta1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       mcsv1beta1.ServiceImportSpec{Type: kind, IPs: ips, Ports: []mcsv1beta1.ServicePort{{Name: "http", Port: 80}}},
	}
}

// Endpoints is a slice as the cluster's own controller makes it: one port for each of the Service's, pods of hostname pod-0 and on.
func Endpoints(svc *corev1.Service, suffix string, addresses ...string) *discoveryv1.EndpointSlice {
	slice := Slice(svc.Name+"-abc"+suffix, map[string]string{
		discoveryv1.LabelServiceName: svc.Name, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}, addresses...)
	slice.Ports = nil
	for _, p := range svc.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: new(p.Name), Port: new(p.Port + 8000), Protocol: new(cmp.Or(p.Protocol, corev1.ProtocolTCP)),
		})
	}
	return slice
}

// Slice is one with the port http, of pods of hostname pod-0 and on.
func Slice(name string, labels map[string]string, addresses ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for i, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Hostname: new(fmt.Sprintf("pod-%d", i)), NodeName: new("node-1"), Zone: new("zone-a"),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: fmt.Sprintf("pod-%d", i)},
		})
	}
	return slice
}
