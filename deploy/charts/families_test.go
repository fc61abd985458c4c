package charts

import (
	"testing"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// TestFamiliesOfTheService: by default the second CoreDNS has an address of the cluster's first family, also where that is IPv6 alone, and two
// addresses where the values ask for them.
func TestFamiliesOfTheService(t *testing.T) {
	const two = c1 + "dns: {service: {ipFamilyPolicy: PreferDualStack}}"
	wants := func(t *testing.T, c *kube.Cluster, byDefault, both string) {
		defer onCluster(t, c, "", "uninstall", release)
		for _, step := range []struct{ values, want string }{{c1, byDefault}, {two, both}} {
			onCluster(t, c, step.values, "upgrade", "--install", release, chart, "--create-namespace", "--values", "-")
			got := kubectl(t, c, "get", "service", "multicluster-dns", "--namespace="+system, "-o", "jsonpath={.spec.ipFamilies} {.spec.ipFamilyPolicy}")
			if got != step.want {
				t.Errorf("the Service has %s; want %s", got, step.want)
			}
		}
	}
	t.Run("IPv6 alone", func(t *testing.T) {
		wants(t, kube.New(t, kube.Options{ServiceCIDRs: "fd00:10::/112"}), `["IPv6"] SingleStack`, `["IPv6"] PreferDualStack`)
	})
	t.Run("dual-stack", func(t *testing.T) {
		wants(t, shared.Cluster(t), `["IPv4"] SingleStack`, `["IPv4","IPv6"] PreferDualStack`)
	})
}
