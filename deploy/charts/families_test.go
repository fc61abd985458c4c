package charts

import (
	"testing"

	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// TestFamiliesOfTheService: by default the second CoreDNS has an address of the cluster's first family, also where that is IPv6 alone, and two
// addresses where the values ask for them.
func TestFamiliesOfTheService(t *testing.T) {
	const two = c1 + "dns: {service: {ipFamilyPolicy: PreferDualStack}}"
	for cidrs, want := range map[string]struct{ byDefault, both string }{
		"fd00:10::/112":             {`["IPv6"] SingleStack`, `["IPv6"] PreferDualStack`},
		"10.0.0.0/24,fd00:10::/112": {`["IPv4"] SingleStack`, `["IPv4","IPv6"] PreferDualStack`},
	} {
		t.Run(cidrs, func(t *testing.T) {
			c := controlplane.New(t, controlplane.Options{ServiceCIDRs: cidrs})
			for _, step := range []struct{ values, want string }{{c1, want.byDefault}, {two, want.both}} {
				onCluster(t, c, step.values, "upgrade", "--install", release, chart, "--create-namespace", "--values", "-")
				got := kubectl(t, c, "get", "service", "multicluster-dns", "--namespace="+system, "-o", "jsonpath={.spec.ipFamilies} {.spec.ipFamilyPolicy}")
				if got != step.want {
					t.Errorf("the Service has %s; want %s", got, step.want)
				}
			}
		})
	}
}
