package merge_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
)

// A peer reads the same Service from its description as from the Service.
func TestTermsAreTheService(t *testing.T) {
	svc := &corev1.Service{Spec: corev1.ServiceSpec{
		Ports:           []corev1.ServicePort{{Name: "http", Port: 80, AppProtocol: new("kubernetes.io/h2c")}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}},
		SessionAffinity: corev1.ServiceAffinityClientIP, IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol},
		InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyLocal), TrafficDistribution: new(corev1.ServiceTrafficDistributionPreferClose),
	}}
	for _, ip := range []string{"10.0.0.1", corev1.ClusterIPNone} {
		svc.Spec.ClusterIP = ip
		spec, read := merge.TrimService(svc), new(merge.ServiceSpec)
		if !read.ReadTerms(spec.Terms()) {
			t.Fatalf("%s is not read", spec.Terms())
		}
		equal(t, ip, toJSON(t, read), toJSON(t, spec))
	}
}

func TestTermsAreBounded(t *testing.T) {
	many := &merge.ServiceSpec{Type: mcsv1beta1.ClusterSetIP}
	for i := range 5000 {
		many.Ports = append(many.Ports, mcsv1beta1.ServicePort{Name: fmt.Sprint("port-", i), Port: int32(i + 1)})
	}
	if text := many.Terms(); text != "" {
		t.Errorf("%d bytes are published", len(text))
	}
	few := &merge.ServiceSpec{Type: mcsv1beta1.ClusterSetIP}
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "{", "no type": "{}", "another type": `{"Type": "Other"}`, "an ExternalName": `{"External": true, "Type": "ClusterSetIP"}`,
		"a long text": strings.Repeat(" ", merge.MaxTerms) + few.Terms(),
	} {
		if new(merge.ServiceSpec).ReadTerms(text) {
			t.Errorf("%s is read", name)
		}
	}
}
