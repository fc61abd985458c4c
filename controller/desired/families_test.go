package desired

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
)

func TestFamiliesOf(t *testing.T) {
	for _, test := range []struct {
		name string
		ips  []string
		want []corev1.IPFamily
	}{
		{name: "the families come in the addresses' order, each once (C19)", ips: []string{"fd00::1", "10.0.0.1", "fd00::2"},
			want: []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}},
		{name: "an IPv4-mapped address is an IPv4 one", ips: []string{"::ffff:10.0.0.1"}, want: []corev1.IPFamily{corev1.IPv4Protocol}},
		{name: "garbage and addresses with a zone have none", ips: []string{"nonsense", "fe80::1%eth0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, familiesOf(parse(test.ips))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// C24: a Service that is created again with its only recorded address also requests the second
// family.
func TestRecordedAddressDoesNotCostTheSecondFamily(t *testing.T) {
	both := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	want := allocation{ips: parse([]string{"10.0.0.1"}), families: both[:1], policy: new(corev1.IPFamilyPolicyPreferDualStack)}
	if diff := cmp.Diff(want, allocationAttempts(parse([]string{"10.0.0.1"}), both)[0], cmp.AllowUnexported(allocation{}), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
