package desired

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// familiesOf are the addresses' families, in the order of their first appearance.
func familiesOf(all []netip.Addr) []corev1.IPFamily {
	var families []corev1.IPFamily
	for _, addr := range all {
		if family := familyOf(addr); !slices.Contains(families, family) {
			families = append(families, family)
		}
	}
	return families
}

func familyOf(addr netip.Addr) corev1.IPFamily {
	if addr.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// wantedFamilies are the known families that the import names, without duplicates (C19), then those of a user's VIPs: kube-proxy
// answers on an address only where the Service has its family. The import's come first, because the VIPs can go.
// An import of ours names those of its ips; what it should have is what the clusterset gives.
func wantedFamilies(b builder, vips []netip.Addr) []corev1.IPFamily {
	wanted := b.Import.Spec.IPFamilies
	if b.owned {
		wanted = b.families
	}
	var families []corev1.IPFamily
	for _, f := range append(slices.Clone(wanted), familiesOf(vips)...) {
		if (f == corev1.IPv4Protocol || f == corev1.IPv6Protocol) && !slices.Contains(families, f) {
			families = append(families, f)
		}
	}
	return families
}

// subset is true if each of a is in b.
func subset(a, b []corev1.IPFamily) bool {
	return !slices.ContainsFunc(a, func(f corev1.IPFamily) bool { return !slices.Contains(b, f) })
}

// allocation is one way to ask for addresses.
type allocation struct {
	ips      []netip.Addr
	families []corev1.IPFamily
	policy   *corev1.IPFamilyPolicy
}

// allocationAttempts are in the order in which they are tried, each after the one before was refused: the recorded addresses
// (C24), then the first family, then the second. Two families are a preference, not a requirement: a single-stack cluster
// gives the one that it has.
func allocationAttempts(recorded []netip.Addr, families []corev1.IPFamily) []allocation {
	policy := func(n int) *corev1.IPFamilyPolicy {
		p := corev1.IPFamilyPolicySingleStack
		if n > 1 {
			p = corev1.IPFamilyPolicyPreferDualStack
		}
		return &p
	}
	var ways []allocation
	var again []netip.Addr
	for _, ip := range recorded {
		if len(families) == 0 || slices.Contains(families, familyOf(ip)) {
			again = append(again, ip)
		}
	}
	if len(again) > 0 {
		ways = append(ways, allocation{again, familiesOf(again), policy(max(len(families), len(again)))})
	}
	for _, family := range families {
		ways = append(ways, allocation{families: []corev1.IPFamily{family}, policy: policy(len(families))})
	}
	if len(families) == 0 {
		ways = append(ways, allocation{}) // The API's default.
	}
	return ways
}

// syncFamilies adds or takes away the second family. The first one of a Service cannot change, and to make the Service anew
// would change the import's address (C24): that is for the user to decide.
func syncFamilies(svc *corev1.Service, w desiredService) (fault string) {
	have, want := svc.Spec.IPFamilies, w.families
	served := func(vip netip.Addr) bool { return slices.Contains(have, familyOf(vip)) }
	tried := svc.Spec.IPFamilyPolicy != nil && *svc.Spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack
	switch {
	case len(have) == 0 || subset(want, have) && (subset(have, want) || len(want) == 0 || len(w.vips) > 0):
		return ""
	case subset(have, want) || len(w.vips) > 0:
		if !tried {
			svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack)
			return ""
		}
		if len(w.vips) > 0 && !slices.ContainsFunc(w.vips, served) {
			return fmt.Sprintf("the ips are %s, Service %s has %s, and this cluster gives it no other family", familiesOf(w.vips), svc.Name, have)
		}
		return ""
	case len(have) == 2 && have[0] == want[0]:
		svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
		svc.Spec.IPFamilies = have[:1]
		svc.Spec.ClusterIPs = svc.Spec.ClusterIPs[:min(1, len(svc.Spec.ClusterIPs))]
		return ""
	default:
		return fmt.Sprintf("Service %s has %s and a Service's first family cannot change: delete it to get one of %s, with another address",
			svc.Name, have, want)
	}
}

// noteUnserved notes the user's addresses that kube-proxy will not answer on, and the family that could not be had. The
// import's ipFamilies no longer tell, they are those of its ips (C19); the Service's policy does.
func (w *desiredService) noteUnserved(svc *corev1.Service) {
	have, policy := svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy
	if len(w.vips) == 0 && len(have) == 1 && policy != nil && *policy != corev1.IPFamilyPolicySingleStack && !w.single {
		w.note("a second address family, of which this cluster gives Service %s none beside %s", svc.Name, have[0])
	}
	for _, vip := range w.vips {
		if !slices.Contains(svc.Spec.IPFamilies, familyOf(vip)) {
			w.note("Service %s has no family for %s", svc.Name, vip)
		}
	}
}
