package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAddressesThatAreNoVIPs(t *testing.T) {
	elsewhere := others("kubernetes", "10.0.0.1")
	elsewhere.Namespace = "another"
	mine := others("derived-foo", "10.0.0.2")
	own(mine, clusterSetImport("foo"), fullCRD)
	for _, test := range []struct {
		name string
		ip   string
		want string // what the note says; empty where the address is a VIP
	}{
		{"an address of the network is a VIP", "1.2.3.4", ""},
		{"so is one of a private network", "fd00::1234", ""},
		{"an unspecified IPv4 address is none", "0.0.0.0", "0.0.0.0 of ips, which is unspecified"},
		{"an unspecified IPv6 address is none", "::", ":: of ips, which is unspecified"},
		{"an IPv4 loopback address is none", "127.0.0.53", "127.0.0.53 of ips, which is a loopback address"},
		{"an IPv6 loopback address is none", "::1", "::1 of ips, which is a loopback address"},
		{"an IPv4-mapped loopback address is none", "::ffff:127.0.0.1", "127.0.0.1 of ips, which is a loopback address"},
		{"an IPv4 link-local address is none", "169.254.169.254", "169.254.169.254 of ips, which is a link-local address"},
		{"an IPv6 link-local address is none", "fe80::1", "fe80::1 of ips, which is a link-local address"},
		{"an IPv4 multicast address is none", "224.0.0.1", "224.0.0.1 of ips, which is a multicast address"},
		{"an IPv6 multicast address is none", "ff02::1", "ff02::1 of ips, which is a multicast address"},
		{"a ClusterIP of any namespace is none", "10.0.0.1", "10.0.0.1 of ips, which is the ClusterIP of Service another/kubernetes"},
		{"the ClusterIP of the import's own Service is nobody else's", "10.0.0.2", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := newWorld(clusterSetImport("foo", withIPs(test.ip))).state()
			st.Holders = []*corev1.Service{elsewhere, mine}
			a := readAddresses(st, nil)
			if test.want == "" {
				equal(t, "VIPs", a.vips, []string{test.ip})
				return
			}
			equal(t, "VIPs", len(a.vips), 0)
			equal(t, "notes", a.notes, []string{test.want})
			equal(t, "the user's", a.keep, []string{test.ip})
		})
	}
}
