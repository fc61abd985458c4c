package desired

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// familiesOf returns the families of the addresses, in the order of their first appearance.
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

// wantedFamilies returns the valid families of the import, without duplicates (C19), then the
// families of the user's VIPs: kube-proxy answers on an address only if the Service has its family.
// The import's families come first, because the VIPs can be removed. In an import that the
// controller owns, spec.ipFamilies are the families of its ips, so the families that the clusterset
// gives count instead.
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

// subset reports whether each element of a is in b.
func subset(a, b []corev1.IPFamily) bool {
	return !slices.ContainsFunc(a, func(f corev1.IPFamily) bool { return !slices.Contains(b, f) })
}

// allocation is one way to request addresses.
type allocation struct {
	ips      []netip.Addr
	families []corev1.IPFamily
	policy   *corev1.IPFamilyPolicy
}

// allocationAttempts returns the attempts to get addresses, in their order. Each is made after the
// previous one was refused: the recorded addresses (C24), then the first family, then the second.
// Two families are a preference, not a requirement: a single-stack cluster gives the family that it
// has.
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
	for _, family := range families[:len(families)/2*2] { // The range of the other family is full.
		ways = append(ways, allocation{families: []corev1.IPFamily{family}, policy: policy(1)})
	}
	if len(families) == 0 {
		ways = append(ways, allocation{}) // The API's default.
	}
	return ways
}

// allocate requests addresses for a new Service: the recorded ones (C24), and others if the API server refuses
// these. early means that it can still release these, and none that it refuses all.
func (b builder) allocate(spec *corev1.ServiceSpec, recorded []netip.Addr, families []corev1.IPFamily) (early, none bool) {
	ways, tried := allocationAttempts(recorded, families), 0
	for _, r := range b.refused {
		if refusedAddress(r) {
			tried++
		}
	}
	switch {
	case tried > 0 && b.KeepTrying && len(ways[0].ips) > 0:
		return true, false
	case tried >= len(ways):
		return false, true
	}
	way := ways[tried]
	spec.IPFamilies, spec.IPFamilyPolicy, spec.ClusterIPs = way.families, way.policy, format(way.ips)
	if len(way.ips) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	return false, false
}

// syncFamilies adds or removes the second family. The first family of a Service cannot change. A
// new Service would change the import's address (C24), so that decision is left to the user; fault
// then contains the reason.
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
			return fmt.Sprintf("spec.ips are %s, Service %s has %s, and this cluster assigns it no other address family", familiesOf(w.vips), svc.Name, have)
		}
		return ""
	case len(have) == 2 && have[0] == want[0]:
		svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
		svc.Spec.IPFamilies = have[:1]
		svc.Spec.ClusterIPs = svc.Spec.ClusterIPs[:min(1, len(svc.Spec.ClusterIPs))]
		return ""
	default:
		return fmt.Sprintf("Service %s has the family %s, and the first family of a Service cannot change: delete the Service, and the controller creates it again with %s and a new address",
			svc.Name, have, want)
	}
}

// noteUnserved adds notes on the user's addresses that kube-proxy does not answer on, and on a
// second family that the cluster does not have. The import's ipFamilies do not show the second
// case, because they are the families of its ips (C19), but the Service's policy does.
func (w *desiredService) noteUnserved(svc *corev1.Service) {
	have, policy := svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy
	if len(w.vips) == 0 && len(have) == 1 && policy != nil && *policy != corev1.IPFamilyPolicySingleStack && !w.single {
		w.note("a second address family: this cluster has assigned Service %[1]s only %[2]s. If it has another family by now, delete Service %[1]s: the controller creates it again with both", svc.Name, have[0])
	}
	for _, vip := range w.vips {
		if !slices.Contains(svc.Spec.IPFamilies, familyOf(vip)) {
			w.note("Service %s does not have the address family of %s", svc.Name, vip)
		}
	}
}
