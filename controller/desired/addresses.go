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
	recorded []netip.Addr
	// vips are the user's addresses, valid ones only, in their order; none when ips are ours.
	vips []netip.Addr
	// keep is what spec.ips holds where the user set them (garbage included: it is theirs), or is to hold again.
	keep []string
	// notes are on addresses that are left out.
	notes []string
}

// readAddresses tells our addresses from the user's. ips are ours if each of them is recorded, or is the Service's now.
// (Each, not all in order: a dual-stack Service on a CRD for one ip, or one that lost its second family, is ours as well.)
// A user's addresses that a Headless import put aside count as if they stood in the empty ips.
func readAddresses(st observed.State, current []netip.Addr) addresses {
	imp := st.Import
	a := addresses{recorded: splitIPs(imp.Annotations[mcs.AnnotationClusterIPs])}
	known := append(slices.Clone(a.recorded), current...)
	ips := ipsOf(imp)
	theirs := false
	for _, ip := range ips {
		addr, err := netip.ParseAddr(ip)
		addr = addr.Unmap() // An IPv4-mapped address is an IPv4 one to a Service.
		switch {
		case err != nil || addr.Zone() != "":
			theirs = true
			a.notes = append(a.notes, fmt.Sprintf("ips has %q, which is not an address", brief.Clip(ip)))
		case slices.Contains(known, addr):
		default:
			theirs = true
			if fault := vipFault(st, addr); fault != "" {
				a.notes = append(a.notes, fmt.Sprintf("%s of ips, which is %s", addr, fault))
				continue
			}
			a.vips = append(a.vips, addr)
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
	return format(splitIPs(imp.Annotations[mcs.AnnotationVIPs]))
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
		if !mine && slices.Contains(ServiceAddresses(svc), addr) {
			return fmt.Sprintf("the ClusterIP of Service %s/%s", svc.Namespace, svc.Name)
		}
	}
	return ""
}

// ImportAddresses are the valid addresses among an import's ips, and those that it had last.
func ImportAddresses(imp *mcsv1beta1.ServiceImport) []netip.Addr {
	all := append(parse(ipsOf(imp)), splitIPs(imp.Annotations[mcs.AnnotationClusterIPs])...)
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// ServiceAddresses are a Service's ClusterIPs: none while it has none, or if it is headless.
func ServiceAddresses(svc *corev1.Service) []netip.Addr {
	if svc == nil || svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	if len(svc.Spec.ClusterIPs) == 0 {
		return parse([]string{svc.Spec.ClusterIP})
	}
	return parse(svc.Spec.ClusterIPs)
}

// parse gives the addresses among texts. What is garbage or has a zone is left out. An IPv4-mapped address is an IPv4 one.
func parse(texts []string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		if addr, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil && addr.Zone() == "" {
			all = append(all, addr.Unmap())
		}
	}
	return all
}

func format(all []netip.Addr) []string {
	var texts []string
	for _, addr := range all {
		texts = append(texts, addr.String())
	}
	return texts
}

// without gives those of texts that are none of some addresses.
func without(texts []string, gone []netip.Addr) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		return slices.ContainsFunc(parse([]string{text}), func(addr netip.Addr) bool { return slices.Contains(gone, addr) })
	})
}

// userSet is true where spec.ips are the user's and stay.
func (a addresses) userSet() bool { return len(a.keep) > 0 }

// splitIPs reads an annotation. Garbage in it counts as if it were not there.
func splitIPs(annotation string) []netip.Addr { return parse(strings.Split(annotation, ",")) }

func joinIPs(all []netip.Addr) string { return strings.Join(format(all), ",") }
