package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// addresses is what an import's ips and annotations say, read once.
type addresses struct {
	// recorded are the ClusterIPs that the derived Service got; the annotation's.
	recorded []string
	// vips are the user's addresses, valid ones only, in their order; none when ips are ours.
	vips []string
	// keep is what spec.ips holds where the user set them (garbage included: it is theirs), or is to hold again.
	keep []string
	// notes are on addresses that are left out.
	notes []string
}

// readAddresses tells our addresses from the user's. ips are ours if each of them is recorded, or is the Service's now.
// (Each, not all in order: a dual-stack Service on a CRD for one ip, or one that lost its second family, is ours as well.)
// A user's addresses that a Headless import put aside count as if they stood in the empty ips.
func readAddresses(imp *mcsv1beta1.ServiceImport, current []string) addresses {
	a := addresses{recorded: splitIPs(imp.Annotations[AnnotationClusterIPs])}
	known := make(map[netip.Addr]bool)
	for _, ip := range append(slices.Clone(a.recorded), current...) {
		if addr, err := netip.ParseAddr(ip); err == nil {
			known[addr] = true
		}
	}
	ips := imp.Spec.IPs
	if len(ips) == 0 {
		ips = splitIPs(imp.Annotations[AnnotationVIPs])
	}
	theirs := false
	for _, ip := range ips {
		addr, err := netip.ParseAddr(ip)
		addr = addr.Unmap() // An IPv4-mapped address is an IPv4 one to a Service.
		switch {
		case err != nil || addr.Zone() != "":
			theirs = true
			a.notes = append(a.notes, fmt.Sprintf("ips has %q, which is not an address", clip(ip)))
		case known[addr]:
		default:
			theirs = true
			a.vips = append(a.vips, addr.String())
		}
	}
	if theirs {
		a.keep = ips
	}
	return a
}

// userSet is true where spec.ips are the user's and stay.
func (a addresses) userSet() bool { return len(a.keep) > 0 }

// splitIPs reads an annotation. Garbage in it counts as if it were not there.
func splitIPs(annotation string) []string {
	var ips []string
	for ip := range strings.SplitSeq(annotation, ",") {
		if addr, err := netip.ParseAddr(strings.TrimSpace(ip)); err == nil && addr.Zone() == "" {
			ips = append(ips, addr.String())
		}
	}
	return ips
}

// clusterIPs are a Service's addresses: none while it has none, or if it is headless itself.
func clusterIPs(svc *corev1.Service) []string {
	if svc == nil || svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	if len(svc.Spec.ClusterIPs) == 0 {
		return []string{svc.Spec.ClusterIP}
	}
	return svc.Spec.ClusterIPs
}
