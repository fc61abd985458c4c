package desired

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
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
func readAddresses(st observed.State, current []string) addresses {
	imp := st.Import
	a := addresses{recorded: splitIPs(imp.Annotations[mcs.AnnotationClusterIPs])}
	known := make(map[netip.Addr]bool)
	for _, ip := range append(slices.Clone(a.recorded), current...) {
		if addr, err := netip.ParseAddr(ip); err == nil {
			known[addr] = true
		}
	}
	ips := ipsOf(imp)
	theirs := false
	for _, ip := range ips {
		addr, err := netip.ParseAddr(ip)
		addr = addr.Unmap() // An IPv4-mapped address is an IPv4 one to a Service.
		switch {
		case err != nil || addr.Zone() != "":
			theirs = true
			a.notes = append(a.notes, fmt.Sprintf("ips has %q, which is not an address", brief.Clip(ip)))
		case known[addr]:
		default:
			theirs = true
			if fault := vipFault(st, addr); fault != "" {
				a.notes = append(a.notes, fmt.Sprintf("%s of ips, which is %s", addr, fault))
				continue
			}
			a.vips = append(a.vips, addr.String())
		}
	}
	if theirs {
		a.keep = ips
	}
	return a
}

// ipsOf are the ips, or those that wait for a flip back from Headless.
func ipsOf(imp *mcsv1beta1.ServiceImport) []string {
	if len(imp.Spec.IPs) > 0 {
		return imp.Spec.IPs
	}
	return splitIPs(imp.Annotations[mcs.AnnotationVIPs])
}

// vipFault returns why no Service may answer on an address; "" if one may. kube-proxy programs whatever it is given: a node's loopback, or an
// address whose traffic belongs to another Service. The latter comes by accident too, with an import that was copied, ips
// included, from a cluster with the same range of ClusterIPs.
func vipFault(st observed.State, addr netip.Addr) string {
	switch {
	case addr.IsUnspecified():
		return "unspecified"
	case addr.IsLoopback():
		return "a loopback address"
	case addr.IsLinkLocalUnicast():
		return "a link-local address"
	case addr.IsMulticast():
		return "a multicast address"
	}
	for _, svc := range sorted(slices.Clone(st.AddressHolders)) {
		mine := svc.Namespace == st.Import.Namespace && slices.Contains(ownership.OwnerImports(svc), st.Import.Name)
		if !mine && slices.Contains(ServiceAddresses(svc), addr.String()) {
			return fmt.Sprintf("the ClusterIP of Service %s/%s", svc.Namespace, svc.Name)
		}
	}
	return ""
}

// ImportAddresses are the valid addresses among an import's ips, and those that it had last; ServiceAddresses a Service's: in one
// spelling, for indices.
func ImportAddresses(imp *mcsv1beta1.ServiceImport) []string {
	all := append(canonical(ipsOf(imp)), splitIPs(imp.Annotations[mcs.AnnotationClusterIPs])...)
	slices.Sort(all)
	return slices.Compact(all)
}

// ServiceAddresses: see ImportAddresses.
func ServiceAddresses(svc *corev1.Service) []string { return canonical(clusterIPs(svc)) }

func canonical(ips []string) []string {
	var addresses []string
	for _, ip := range ips {
		if addr, err := netip.ParseAddr(strings.TrimSpace(ip)); err == nil && addr.Zone() == "" {
			addresses = append(addresses, addr.Unmap().String())
		}
	}
	return addresses
}

// userSet is true where spec.ips are the user's and stay.
func (a addresses) userSet() bool { return len(a.keep) > 0 }

// splitIPs reads an annotation. Garbage in it counts as if it were not there.
func splitIPs(annotation string) []string { return canonical(strings.Split(annotation, ",")) }

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
