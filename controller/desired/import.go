package desired

import (
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

// ofImport is what any import gets. The package's comment has the order of the rules.
func ofImport(b builder) Desired {
	imp := b.Import
	if imp == nil || imp.DeletionTimestamp != nil {
		return Desired{}
	}
	switch {
	case !ownership.OfImport(imp):
		d := ofKind(b)
		d.Slices = copiesOfOthers(b)
		return d
	case b.Clusterset == nil:
		d := ofKind(b)
		d.Slices = keptAlone(b)
		return d
	default:
		return ofKind(b) // updateImport adds the slices
	}
}

// ofKind is what an import needs besides slices, by its type and by who keeps it.
func ofKind(b builder) Desired {
	imp := b.Import
	switch {
	case ownership.ByKarmada(imp):
		return followKarmada(b)
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

// leaveForeign empties ips that were our Service's of this name: another Service may have the addresses by now, and the one that has
// the name would get the imported endpoints. The annotation remembers the addresses for the return. Where ours still stands
// under a former name, it goes on serving.
func leaveForeign(b builder) Desired {
	d := Desired{Ready: readyFor(ReasonForeignService,
		"Service %s exists and is not this import's: delete it, or name another in the annotation %s; to use it as it is, name it there and remove the annotation %s",
		b.Service.Name, mcs.AnnotationDerivedService, mcs.AnnotationClusterIPs)}
	if ownership.DerivedByUs(b.Import) && !slices.ContainsFunc(b.Owned, b.serves) {
		d.takeBack(b)
	}
	return d
}

// takeBack empties ips: DNS would lead clients to the Service that has these addresses next. A user's stay, but for those of ours among them that are gone.
// ipFamilies are the wish for the return.
func (d *Desired) takeBack(b builder, gone ...netip.Addr) {
	edited := b.Import.DeepCopy()
	var left []string
	if readAddresses(b.State, nil).userSet() {
		left = without(edited.Spec.IPs, gone)
	}
	setIPs(edited, left, b.CRD, false)
	d.setImport(b, edited)
}

// serves is true for our Service of the derived name, and for one under a former name that the import's slices belong to. Our marks
// alone are quickly set by others.
func (b builder) serves(svc *corev1.Service) bool {
	ours := svc.Namespace == b.Import.Namespace && slices.Contains(ownership.OwnerImports(svc), b.Import.Name)
	return ours && (svc.Name == ownership.DerivedName(b.Import) || slices.Contains(b.serving, svc.Name))
}

// servicesOf are the Services that the import's slices belong to; slices that Kubernetes makes of a Service do not count.
func servicesOf(st observed.State) []string {
	var names []string
	for _, slice := range st.Slices {
		if !slices.Contains(foreignSliceManagers, slice.Labels[discoveryv1.LabelManagedBy]) && (ownership.SliceIsOurs(slice, st.Import) || !ownership.OfImport(st.Import)) {
			names = append(names, slice.Labels[discoveryv1.LabelServiceName])
		}
	}
	return names
}

// elsewhere are those of ips that Services have which do not serve the import.
func (b builder) elsewhere(ips []netip.Addr) []netip.Addr {
	var theirs []netip.Addr
	for _, svc := range b.AddressHolders {
		if !b.serves(svc) {
			theirs = append(theirs, ServiceAddresses(svc)...)
		}
	}
	return slices.DeleteFunc(slices.Clone(ips), func(ip netip.Addr) bool { return !slices.Contains(theirs, ip) })
}

// headless takes away what a ClusterSetIP import had (C16, C25). The addresses stay remembered: the flip back brings them again.
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

// othersKeptIt is true for an import whose annotation names a Service that we did not make.
func othersKeptIt(imp *mcsv1beta1.ServiceImport) bool {
	return imp.Annotations[mcs.AnnotationDerivedService] != "" && !ownership.DerivedByUs(imp)
}

// usersAddresses are the ips that a user set; none where others keep the Service, whose addresses they then are.
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
