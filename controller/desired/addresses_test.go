package desired

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

func TestAddressesThatCannotBeVIPs(t *testing.T) {
	service := func(namespace, name, ip string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip}}
	}
	elsewhere, mine := service("another", "kubernetes", "10.0.0.1"), service("default", "derived-foo", "10.0.0.2")
	mine.Labels = map[string]string{mcs.LabelManagedBy: mcs.ControllerName}
	mine.OwnerReferences = []metav1.OwnerReference{{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceImportKindName, Name: "foo"}}
	for _, test := range []struct {
		name string
		ip   string
		// want is the note, or empty if the address is a VIP.
		want string
	}{
		{"an address of the network is a VIP", "1.2.3.4", ""},
		{"so is one of a private network", "fd00::1234", ""},
		{"an unspecified IPv4 address is invalid", "0.0.0.0", "0.0.0.0 in spec.ips, which is unspecified"},
		{"an unspecified IPv6 address is invalid", "::", ":: in spec.ips, which is unspecified"},
		{"an IPv4 loopback address is invalid", "127.0.0.53", "127.0.0.53 in spec.ips, which is a loopback address"},
		{"an IPv6 loopback address is invalid", "::1", "::1 in spec.ips, which is a loopback address"},
		{"an IPv4-mapped loopback address is invalid", "::ffff:127.0.0.1", "127.0.0.1 in spec.ips, which is a loopback address"},
		{"an IPv4 link-local address is invalid", "169.254.169.254", "169.254.169.254 in spec.ips, which is a link-local address"},
		{"an IPv6 link-local address is invalid", "fe80::1", "fe80::1 in spec.ips, which is a link-local address"},
		{"an IPv4 multicast address is invalid", "224.0.0.1", "224.0.0.1 in spec.ips, which is a multicast address"},
		{"an IPv6 multicast address is invalid", "ff02::1", "ff02::1 in spec.ips, which is a multicast address"},
		{"a ClusterIP of any namespace is invalid", "10.0.0.1", "10.0.0.1 in spec.ips, which is the ClusterIP of Service another/kubernetes"},
		{"the ClusterIP of the import's own Service is valid", "10.0.0.2", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := observed.State{Import: &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foo"}, Spec: mcsv1beta1.ServiceImportSpec{IPs: []string{test.ip}}}}
			st.AddressHolders = []*corev1.Service{elsewhere, mine}
			a := readAddresses(st, nil)
			want := addresses{keep: []string{test.ip}, vips: parse([]string{test.ip})}
			if test.want != "" {
				want.vips, want.notes = nil, []string{test.want}
			}
			if !reflect.DeepEqual(a, want) {
				t.Errorf("read %+v; want %+v", a, want)
			}
		})
	}
}
