package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// Overlay replaces the controller's parts of a slice, and nothing else.
func TestOverlay(t *testing.T) {
	service := merge.TrimService(&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}})
	m := merge.Member{Cluster: "a", Export: &merge.Export{Created: noon}, Service: service, Slices: []*discoveryv1.EndpointSlice{
		sliceOf("demo-1", "10.1.0.1", map[string]string{discoveryv1.LabelServiceName: "demo"}),
	}}
	want := desired.ImportedSlices("a", types.NamespacedName{Namespace: "shop", Name: "demo"}, merge.Merge([]merge.Member{m}), []merge.Member{m}, 100)[0]
	have := want.DeepCopy()
	have.ResourceVersion, have.UID = "7", "u7"
	have.OwnerReferences = []metav1.OwnerReference{{Name: "demo", UID: "u1"}}
	have.Labels[discoveryv1.LabelServiceName], have.Labels["theirs"] = "derived-demo", "1"
	have.Annotations = map[string]string{"theirs": "2"}
	equal(t, "nothing to write", ownership.Overlay(have, want), have)
	read := have.DeepCopy()
	// The API server does not distinguish empty from absent.
	read.Ports = []discoveryv1.EndpointPort{}
	equal(t, "same", ownership.SameSlice(read, ownership.Overlay(read, want)), true)
	owned := have.DeepCopy()
	owned.OwnerReferences[0].UID = "u2"
	equal(t, "same, with another owner", ownership.SameSlice(have, owned), false)

	for _, test := range []struct {
		name string
		edit func(*discoveryv1.EndpointSlice)
	}{
		{"a label of ours is gone", func(s *discoveryv1.EndpointSlice) { delete(s.Labels, mcsv1beta1.LabelSourceCluster) }},
		{"all labels but theirs are gone", func(s *discoveryv1.EndpointSlice) {
			s.Labels = map[string]string{"theirs": "1", discoveryv1.LabelServiceName: "derived-demo"}
		}},
		{"a label of ours is another", func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "x" }},
		{"a time that is not the source's", func(s *discoveryv1.EndpointSlice) {
			s.Annotations[corev1.EndpointsLastChangeTriggerTime] = "2026-01-01T00:00:00Z"
		}},
		{"ports are hidden that are not", func(s *discoveryv1.EndpointSlice) { s.Annotations[mcs.AnnotationHiddenPorts] = "[]" }},
		{"an endpoint is another", func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.1.0.2" }},
		{"an endpoint has hints", func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hints = &discoveryv1.EndpointHints{} }},
		{"an endpoint is gone", func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil }},
		{"a port is one too many", func(s *discoveryv1.EndpointSlice) { s.Ports = []discoveryv1.EndpointPort{{Port: new(int32(1))}} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			edited := have.DeepCopy()
			test.edit(edited)
			before := edited.DeepCopy()
			equal(t, "slice", ownership.Overlay(edited, want), have)
			equal(t, "same", ownership.SameSlice(edited, have), false)
			equal(t, "what was read", edited, before)
		})
	}
}

func sliceOf(name, address string, labels map[string]string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: labels},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}
}
