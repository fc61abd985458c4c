package desired

import (
	"cmp"
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

// addresses contains the parsed ips and annotations of an import.
type addresses struct {
	// recorded are the ClusterIPs that the derived Service got, from the annotation, or those of the
	// import that was deleted a moment ago.
	recorded []netip.Addr
	// vips are the user's valid addresses, in their order. It is empty if the controller set ips.
	vips []netip.Addr
	// keep is the value of spec.ips that stays or is restored, if a user set it. It includes
	// invalid entries, because they belong to the user.
	keep []string
	// notes describe the addresses that are left out.
	notes []string
}

// readAddresses separates the controller's addresses from the user's. The controller set ips if
// each of them is recorded or is a current address of the Service. The order and the number do not
// matter: a dual-stack Service on a CRD for one ip, or a Service that lost its second family, also
// has the controller's ips. Of an import that the controller owns, no address is a user's. If ips is empty, the user's addresses that were saved while the import
// was Headless count instead.
func readAddresses(st observed.State, current []netip.Addr) addresses {
	imp := st.Import
	a := addresses{recorded: splitIPs(cmp.Or(imp.Annotations[mcs.AnnotationClusterIPs], st.Former))}
	known := append(slices.Clone(a.recorded), current...)
	ips := ipsOf(imp)
	theirs := false
	for _, ip := range ips {
		addr, err := netip.ParseAddr(ip)
		addr = addr.Unmap() // A Service treats an IPv4-mapped address as IPv4.
		switch {
		case err != nil || addr.Zone() != "":
			theirs = true
			a.notes = append(a.notes, fmt.Sprintf("%q in spec.ips, which is not an IP address", brief.Clip(ip)))
		case slices.Contains(known, addr):
		default:
			theirs = true
			if fault := vipFault(st, addr); fault != "" {
				a.notes = append(a.notes, fmt.Sprintf("%s in spec.ips, which is %s", addr, fault))
				continue
			}
			a.vips = append(a.vips, addr)
		}
	}
	switch {
	case theirs && ownership.OfImport(imp): // C23: nobody else sets the addresses of an import that the controller made.
		a.vips, a.notes = nil, nil
	case theirs:
		a.keep = ips
	}
	return a
}

// ipsOf returns spec.ips, or the addresses that are saved while the import is Headless.
func ipsOf(imp *mcsv1beta1.ServiceImport) []string {
	if len(imp.Spec.IPs) > 0 {
		return imp.Spec.IPs
	}
	return format(splitIPs(imp.Annotations[mcs.AnnotationVIPs]))
}

// vipFault returns why a Service must not answer on an address, or "" if it can. kube-proxy
// programs every address that it is given, such as a node's loopback address or an address that
// belongs to another Service. The latter also happens by accident, if an import is copied with its
// ips from a cluster with the same range of ClusterIPs.
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
		mine := ownership.Derived(st.Import, svc)
		if !mine && slices.Contains(ServiceAddresses(svc), addr) {
			return fmt.Sprintf("the ClusterIP of Service %s/%s", svc.Namespace, svc.Name)
		}
	}
	return ""
}

// ImportAddresses returns the valid addresses among an import's ips, and those of records: its own
// and others.
func ImportAddresses(imp *mcsv1beta1.ServiceImport, records ...string) []netip.Addr {
	all := parse(ipsOf(imp))
	for _, record := range append(records, imp.Annotations[mcs.AnnotationClusterIPs]) {
		all = append(all, splitIPs(record)...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// ServiceAddresses returns a Service's ClusterIPs, or none if the Service has none or is headless.
func ServiceAddresses(svc *corev1.Service) []netip.Addr {
	if svc == nil || svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	if len(svc.Spec.ClusterIPs) == 0 {
		return parse([]string{svc.Spec.ClusterIP})
	}
	return parse(svc.Spec.ClusterIPs)
}

// parse returns the addresses in texts. It leaves out invalid addresses and addresses with a zone,
// and converts IPv4-mapped addresses to IPv4.
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

// without returns texts without the addresses in gone.
func without(texts []string, gone []netip.Addr) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		return slices.ContainsFunc(parse([]string{text}), func(addr netip.Addr) bool { return slices.Contains(gone, addr) })
	})
}

// userSet reports whether a user set spec.ips. They then stay.
func (a addresses) userSet() bool { return len(a.keep) > 0 }

// splitIPs parses an annotation. It ignores invalid entries.
func splitIPs(annotation string) []netip.Addr { return parse(strings.Split(annotation, ",")) }

func joinIPs(all []netip.Addr) string { return strings.Join(format(all), ",") }
