package ownership

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// A user has added a port to a Service that the controller made, by kubectl edit. It is not one of the controller's.
func TestPortsOfOthersAreNotKept(t *testing.T) {
	const own = `{"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}}}}`
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	for name, c := range map[string]struct {
		labels  map[string]string
		entries []metav1.ManagedFieldsEntry
		want    []int32
	}{
		"the controller's Service": {map[string]string{mcs.LabelNativeOf: "foo"}, []metav1.ManagedFieldsEntry{entry(mcs.ControllerName, own)}, []int32{80}},
		"without managedFields":    {map[string]string{mcs.LabelNativeOf: "foo"}, nil, []int32{80, 80, 9090}},
		"with others' alone":       {map[string]string{mcs.LabelNativeOf: "foo"}, []metav1.ManagedFieldsEntry{entry("kubectl", own)}, []int32{80, 80, 9090}},
		"with fields of no form":   {map[string]string{mcs.LabelNativeOf: "foo"}, []metav1.ManagedFieldsEntry{entry(mcs.ControllerName, "{")}, []int32{80, 80, 9090}},
		"a user's Service":         {nil, []metav1.ManagedFieldsEntry{entry(mcs.ControllerName, own)}, []int32{80, 80, 9090}},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "foo", Labels: c.labels, ManagedFields: c.entries}}
		svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}, {Name: "quic", Protocol: corev1.ProtocolUDP, Port: 80}, {Name: "mine", Protocol: corev1.ProtocolTCP, Port: 9090}}
		KeepApplied(svc)
		var got []int32
		for _, p := range svc.Spec.Ports {
			got = append(got, p.Port)
		}
		if !slices.Equal(got, c.want) || svc.ManagedFields != nil {
			t.Errorf("%s: the ports are %v, want %v", name, got, c.want)
		}
	}
}
