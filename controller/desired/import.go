package desired

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// ofImport is what belongs to an import, whoever made it. The package's comment has the order of the rules.
func ofImport(b builder) Desired {
	imp := b.Import
	if imp == nil || imp.DeletionTimestamp != nil {
		return Desired{}
	}
	switch {
	case !ownership.OfImport(imp):
		d := ofKind(b)
		d.Slices = othersMirrored(b)
		return d
	case b.Clusterset == nil:
		d := ofKind(b)
		d.Slices = keptAlone(b)
		return d
	default:
		return ofKind(b) // maintain adds the slices
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

// foreign takes back what led to our Service of this name: its addresses may be somebody else's by now, and the Service that has
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

// takeBack empties ips: DNS would lead to whoever has these addresses next. A user's stay, but for those of ours among them that are gone.
// ipFamilies are the wish for the return.
func (d *Desired) takeBack(b builder, gone ...string) {
	edited := b.Import.DeepCopy()
	var left []string
	if readAddresses(b.State, nil).userSet() {
		left = slices.DeleteFunc(slices.Clone(edited.Spec.IPs), func(ip string) bool {
			return slices.ContainsFunc(canonical([]string{ip}), func(addr string) bool { return slices.Contains(gone, addr) })
		})
	}
	setIPs(edited, left, b.CRD, false)
	d.setImport(b, edited)
}

// serves is true for our Service of the derived name, and for one under a former name that the import's slices are led to. Our marks
// alone are quickly set by others.
func (b builder) serves(svc *corev1.Service) bool {
	ours := svc.Namespace == b.Import.Namespace && slices.Contains(ownership.OwnerImports(svc), b.Import.Name)
	return ours && (svc.Name == ownership.DerivedName(b.Import) || slices.Contains(b.led, svc.Name))
}

// ledTo are the Services that the import's slices lead to; those that Kubernetes makes of a Service do not count.
func ledTo(st observed.State) []string {
	var names []string
	for _, slice := range st.Slices {
		if !slices.Contains(foreignSliceManagers, slice.Labels[discoveryv1.LabelManagedBy]) && (ownership.SliceIsOurs(slice, st.Import) || !ownership.OfImport(st.Import)) {
			names = append(names, slice.Labels[discoveryv1.LabelServiceName])
		}
	}
	return names
}

// elsewhere are those of ips that Services have which do not serve the import.
func (b builder) elsewhere(ips []string) []string {
	var theirs []string
	for _, svc := range b.AddressHolders {
		if !b.serves(svc) {
			theirs = append(theirs, ServiceAddresses(svc)...)
		}
	}
	return slices.DeleteFunc(slices.Clone(ips), func(ip string) bool { return !slices.Contains(theirs, ip) })
}

// stillFirst are the addresses that are not gone: none where the first is, whose family is the Service's first. The other one, asked for by
// itself, would be first for good.
func stillFirst(recorded, gone []string) []string {
	if slices.Contains(gone, recorded[0]) {
		return nil
	}
	return missing(recorded, gone)
}

// create makes the derived Service. The rest needs the addresses that it gets.
func createService(b builder) Desired {
	name := ownership.DerivedName(b.Import)
	a := readAddresses(b.State, nil)
	followed := a.recorded
	if othersKeptIt(b.Import) { // ips are the addresses of a Service that is gone.
		followed = canonical(b.Import.Spec.IPs)
	}
	if gone := b.elsewhere(followed); len(gone) > 0 { // There is nothing to be patient for, and nobody may be led there meanwhile.
		var d Desired
		if d.takeBack(b, gone...); !equality.Semantic.DeepEqual(b.Import, d.Import) {
			return d
		}
		if len(a.recorded) > 0 {
			a.recorded = stillFirst(a.recorded, gone)
		}
	}
	if faults := validation.IsDNS1035Label(name); len(faults) > 0 {
		return Desired{Ready: readyFor(ReasonInvalidName, "no Service can be called %q, as annotation %s has it: %s",
			brief.Clip(name), mcs.AnnotationDerivedService, strings.Join(faults, "; "))}
	}
	// One of ours under a former name goes first: the new one takes over its addresses (C24).
	if others := otherServices(b.State); len(others) > 0 {
		return Desired{Delete: notDeleted(others), Ready: readyFor(ReasonPending, "waiting for Service %s to go", others[0].Name)}
	}
	w := readService(b, a)
	if len(w.ports) == 0 {
		return Desired{Ready: noPorts(w)}
	}
	if r, refused := refusedWhole(b.Refused); refused {
		return Desired{Retry: true, Ready: readyFor(ReasonRefused, "Service %s cannot be made: %s", name, r.Message)}
	}
	if b.KeepTrying && len(b.Refused) > 0 && len(allocationAttempts(a.recorded, w.families)[0].ips) > 0 {
		return Desired{RetryAddress: true} // C24: another address is the last resort. The condition would only flicker.
	}
	svc, ok := newService(b.State, a, w)
	if !ok {
		return Desired{Retry: true, Ready: noAddress(b.State, w)}
	}
	return Desired{Service: svc}
}

func noPorts(w desiredService) Ready {
	v := readyFor(ReasonNoPorts, "the import has no port that a Service can have: set spec.ports")
	v.Notes = w.notes
	return v
}

// noAddress tells a family that this cluster lacks (C27) from other trouble with addresses.
func noAddress(st observed.State, w desiredService) Ready {
	last := st.Refused[len(st.Refused)-1]
	if strings.HasPrefix(last.Field, fieldFamilies) {
		return readyFor(ReasonFamilies, "this cluster gives a Service none of the families %s: %s", w.families, last.Message)
	}
	return readyFor(ReasonRefused, "Service %s gets no address: %s", ownership.DerivedName(st.Import), last.Message)
}

// keep holds our Service, the import's addresses and the slices in line. So it does with a Service that is being deleted: while a
// finalizer holds it, it serves on, and whoever set that may edit it.
func syncOwned(b builder) Desired {
	svc := b.Service
	if svc.Spec.ClusterIP == corev1.ClusterIPNone {
		return remakeService(b)
	}
	a := readAddresses(b.State, clusterIPs(svc))
	w := readService(b, a)
	wanted, fault := syncService(b.State, a, w)
	w.notes = append(w.notes, b.Contested.YieldService(svc, wanted)...)
	r, refused := refusedWhole(b.Refused)
	if refused {
		wanted = svc
	}
	d := Desired{Delete: notDeleted(otherServices(b.State)), Exclusive: true, Service: wanted, Retry: refused}
	if !refused {
		d.ServiceStatus = w.ingress(b, svc)
	}
	d.keepAddresses(b, a, wanted, fault)
	w.noteUnserved(svc)
	d.Ready = keepVerdict(b.State, a, w, fault, r, refused)
	return d
}

// ingress is the Service with the user's addresses in its status; nil where it is to stay as it is.
func (w *desiredService) ingress(b builder, svc *corev1.Service) *corev1.Service {
	status := vipStatus(svc, w.vips)
	if status == nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	if b.Contested.HoldsIngress(status) {
		w.notes = append(w.notes, b.Contested.Note(contested.FieldIngress))
		return nil
	}
	return status
}

// keepAddresses puts onto the import the addresses of our Service. A second one that goes is out of ips at once.
func (d *Desired) keepAddresses(b builder, a addresses, wanted *corev1.Service, fault string) {
	switch current := clusterIPs(wanted); {
	case len(clusterIPs(b.Service)) > 0:
		// While the families are on the move, or cannot be had, or the ips are not ours, the import's ipFamilies are a wish and
		// stay: written over with a VIP's, they would outlive it and cost the Service an address (C24).
		move := !equality.Semantic.DeepEqual(b.Service.Spec.IPFamilyPolicy, wanted.Spec.IPFamilyPolicy)
		d.writeAddresses(b, a, current, !move && fault == "" && !a.userSet())
	case len(current) == 0: // nor asks for those that it had
		d.takeBack(b)
	}
}

// remake is for a headless Service under our marks. We made none, and it cannot get an address: somebody has put it in the place of ours,
// whose address is free for every other Service.
func remakeService(b builder) Desired {
	d := Desired{Delete: notDeleted(b.Owned), Ready: readyFor(ReasonPending, "Service %s is headless: it is deleted and will be made again", b.Service.Name)}
	d.takeBack(b)
	return d
}

func keepVerdict(st observed.State, a addresses, w desiredService, fault string, r observed.Refusal, refused bool) Ready {
	svc := st.Service
	var v Ready
	switch {
	case svc.DeletionTimestamp != nil:
		v = readyFor(ReasonPending, "Service %s is being deleted and will be made again", svc.Name)
	case len(clusterIPs(svc)) == 0:
		v = readyFor(ReasonPending, "Service %s has no address: delete it, and it is made again with one", svc.Name)
	case len(w.ports) == 0:
		return noPorts(w)
	case refused:
		v = readyFor(ReasonRefused, "Service %s cannot be changed: %s", svc.Name, r.Message)
	case fault != "":
		v = readyFor(ReasonFamilies, "%s", fault)
	case a.userSet() && len(w.vips) == 0:
		v = readyFor(ReasonInvalidIPs, "spec.ips, set by hand or copied, holds no address that a Service may answer on: empty it to get those of Service %s", svc.Name)
	case a.userSet():
		v = readyFor(ReasonReady, "served by Service %s, also on %s, set in spec.ips by hand or copied: empty it to get the Service's addresses",
			svc.Name, strings.Join(w.vips, ", "))
	default:
		v = readyFor(ReasonReady, "served by Service %s", svc.Name)
	}
	v.Notes = w.notes
	return v
}

// writeAddresses puts our Service's addresses onto the import, in one patch with the annotations that explain them: a crash
// never leaves the one without the other. A user's ips stay; those that a flip to Headless had put aside come back.
func (d *Desired) writeAddresses(b builder, a addresses, current []string, families bool) {
	edited := b.Import.DeepCopy()
	annotate(edited, mcs.AnnotationDerivedService, b.Service.Name)
	annotate(edited, mcs.AnnotationClusterIPs, strings.Join(current, ","))
	delete(edited.Annotations, mcs.AnnotationVIPs)
	ips := current
	if a.userSet() {
		ips = a.keep
	}
	setIPs(edited, ips, b.CRD, families)
	d.setImport(b, edited)
	// A second address that comes or goes with its family is no change of the others.
	if len(missing(a.recorded, current)) > 0 && len(missing(current, a.recorded)) > 0 {
		d.Events = append(d.Events, Event{corev1.EventTypeWarning, EventAddressChanged,
			"the address of Service " + b.Service.Name + " changed: it was " + strings.Join(a.recorded, ",") + " and is " + strings.Join(current, ",")})
	}
}

// missing are those of ips that are not among others.
func missing(ips, others []string) []string {
	return slices.DeleteFunc(slices.Clone(ips), func(ip string) bool { return slices.Contains(others, ip) })
}

// headless takes away what a ClusterSetIP import had (C16, C25). The addresses stay remembered: the flip back brings them again.
func headless(b builder) Desired {
	edited := b.Import.DeepCopy()
	if a := usersAddresses(b.State); a.userSet() {
		annotate(edited, mcs.AnnotationVIPs, strings.Join(splitIPs(strings.Join(a.keep, ",")), ","))
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
		return readAddresses(st, clusterIPs(st.Service))
	case kind == ownership.ReadOnly, othersKeepIt:
		return addresses{}
	default:
		return readAddresses(st, nil)
	}
}

// otherServices are those of ours that do not bear the derived name, sorted.
func otherServices(st observed.State) []*corev1.Service {
	name := ownership.DerivedName(st.Import)
	return sorted(slices.DeleteFunc(slices.Clone(st.Owned), func(svc *corev1.Service) bool { return svc.Name == name }))
}

// living leaves out what is being deleted already.
func notDeleted(services []*corev1.Service) []*corev1.Service {
	return sorted(slices.DeleteFunc(slices.Clone(services), func(svc *corev1.Service) bool { return svc.DeletionTimestamp != nil }))
}

func sorted(services []*corev1.Service) []*corev1.Service {
	slices.SortFunc(services, func(a, b *corev1.Service) int { return cmp.Compare(a.Name, b.Name) })
	return services
}
