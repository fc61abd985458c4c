package desired

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// ofImport returns what any import gets. The package comment contains the order of the rules.
func ofImport(b builder) Desired {
	imp := b.Import
	if imp == nil || imp.DeletionTimestamp != nil {
		return Desired{}
	}
	d := ofKind(b)
	switch { // Otherwise updateImport adds the slices.
	case !ownership.OfImport(imp):
		d.Slices = copiesOfOthers(b)
	case b.Clusterset == nil:
		d.Slices = keptAlone(b)
	}
	return d
}

// ofKind returns what an import needs besides slices, depending on its type and on who manages it.
func ofKind(b builder) Desired {
	imp := b.Import
	switch {
	case ownership.ByKarmada(imp):
		return followKarmada(b)
	case ownership.Keeper(imp, b.Slices) != "":
		return leaveTo(ownership.Keeper(imp, b.Slices), b)
	case imp.Spec.Type == mcsv1beta1.Headless:
		return headless(b)
	case imp.Spec.Type == mcsv1beta1.ClusterSetIP:
		return clusterSetIP(b)
	default:
		return Desired{Ready: readyFor(ReasonUnknownType, "type %q is neither ClusterSetIP nor Headless", brief.Clip(string(imp.Spec.Type)))}
	}
}

func clusterSetIP(b builder) Desired {
	switch ownership.KindOf(b.Import, b.Service) {
	case ownership.Absent:
		return createService(b)
	case ownership.Ours:
		return syncOwned(b)
	case ownership.ReadOnly:
		return followService(b)
	default:
		return leaveForeign(b)
	}
}

// leaveForeign handles a foreign Service of the derived name. It empties ips that the controller's
// Service of this name had: another Service can have these addresses by now, and the foreign
// Service must not serve the import. The annotation keeps the addresses until the controller's
// Service returns. If the controller's Service still exists under a former name, it continues to
// serve.
func leaveForeign(b builder) Desired {
	d := Desired{Ready: readyFor(ReasonForeignService,
		"Service %s exists and does not belong to this import. Delete the Service, or set the annotation %s of this ServiceImport to a name that no Service has. "+
			"To use the Service as it is, set that annotation to %s and remove the annotation %s from this ServiceImport",
		b.Service.Name, mcs.AnnotationDerivedService, b.Service.Name, mcs.AnnotationClusterIPs)}
	if ownership.DerivedByUs(b.Import) && !slices.ContainsFunc(b.Owned, b.serves) {
		d.clearIPs(b)
	}
	return d
}

// clearIPs empties ips, because DNS would send clients to the next Service that gets these
// addresses. A user's addresses stay, except the controller's addresses among them that are in
// gone. ipFamilies stay, as the families to request when the Service returns.
func (d *Desired) clearIPs(b builder, gone ...netip.Addr) {
	edited := b.Import.DeepCopy()
	var left []string
	if readAddresses(b.State, nil).userSet() {
		left = without(edited.Spec.IPs, gone)
	}
	setIPs(edited, left, b.CRD, false)
	d.setImport(b, edited)
}

// serves reports whether a Service of the controller has the derived name, or has a former name and
// the import's slices belong to it. The controller's marks are not sufficient, because other users
// can set them.
func (b builder) serves(svc *corev1.Service) bool {
	ours := ownership.Derived(b.Import, svc)
	return ours && (svc.Name == ownership.DerivedName(b.Import) || slices.Contains(b.serving, svc.Name))
}

// servicesOf returns the Services that the import's slices belong to. Slices that Kubernetes
// creates for a Service do not count.
func servicesOf(st observed.State) []string {
	var names []string
	for _, slice := range st.Slices {
		if !slices.Contains(KubernetesSliceManagers, slice.Labels[discoveryv1.LabelManagedBy]) && (ownership.SliceIsOurs(slice, st.Import) || !ownership.OfImport(st.Import)) {
			names = append(names, slice.Labels[discoveryv1.LabelServiceName])
		}
	}
	return names
}

// elsewhere returns the addresses in ips that belong to Services which do not serve the import.
func (b builder) elsewhere(ips []netip.Addr) []netip.Addr {
	var theirs []netip.Addr
	for _, svc := range b.AddressHolders {
		if !b.serves(svc) {
			theirs = append(theirs, ServiceAddresses(svc)...)
		}
	}
	return slices.DeleteFunc(slices.Clone(ips), func(ip netip.Addr) bool { return !slices.Contains(theirs, ip) })
}

// headless removes what a ClusterSetIP import had (C16, C25). The addresses stay recorded and are
// restored when the type changes back.
func headless(b builder) Desired {
	edited := b.Import.DeepCopy()
	if a := usersAddresses(b.State); a.userSet() {
		annotate(edited, mcs.AnnotationVIPs, joinIPs(parse(a.keep)))
	}
	setIPs(edited, nil, b.CRD, !b.owned || len(b.families) > 0)
	if b.CRD.IPFamilies && len(b.families) > 0 {
		edited.Spec.IPFamilies = b.families // of the endpoints (C19)
	}
	d := Desired{Delete: notDeleted(b.Owned), Ready: readyFor(ReasonReady, "headless: no derived Service is needed")}
	d.setImport(b, edited)
	return d
}

// othersKeptIt reports whether the annotation names a Service that the controller did not create.
func othersKeptIt(imp *mcsv1beta1.ServiceImport) bool {
	return imp.Annotations[mcs.AnnotationDerivedService] != "" && !ownership.DerivedByUs(imp)
}

// usersAddresses returns the ips that a user set. It returns none if others manage the Service: ips
// are then that Service's addresses.
func usersAddresses(st observed.State) addresses {
	othersKeepIt := othersKeptIt(st.Import)
	switch kind := ownership.KindOf(st.Import, st.Service); {
	case len(st.Import.Spec.IPs) == 0:
		return addresses{}
	case kind == ownership.Ours:
		return readAddresses(st, ServiceAddresses(st.Service))
	case kind == ownership.ReadOnly, othersKeepIt:
		return addresses{}
	default:
		return readAddresses(st, nil)
	}
}

// otherServices returns the controller's Services that do not have the derived name, sorted.
func otherServices(st observed.State) []*corev1.Service {
	name := ownership.DerivedName(st.Import)
	return sorted(slices.DeleteFunc(slices.Clone(st.Owned), func(svc *corev1.Service) bool { return svc.Name == name }))
}

// notDeleted leaves out Services that are already being deleted.
func notDeleted(services []*corev1.Service) []*corev1.Service {
	return sorted(slices.DeleteFunc(slices.Clone(services), func(svc *corev1.Service) bool { return svc.DeletionTimestamp != nil }))
}

func sorted(services []*corev1.Service) []*corev1.Service {
	slices.SortFunc(services, func(a, b *corev1.Service) int { return cmp.Compare(a.Name, b.Name) })
	return services
}
