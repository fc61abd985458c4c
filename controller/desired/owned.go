package desired

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// stillFirst returns the recorded addresses that are not in gone, or none if the first address is
// gone. The first address decides the Service's first family. If only the other address were
// requested, its family would permanently be the first.
func stillFirst(recorded, gone []netip.Addr) []netip.Addr {
	if slices.Contains(gone, recorded[0]) {
		return nil
	}
	return missing(recorded, gone)
}

// createService returns the derived Service to create. Everything else needs its addresses.
func createService(b builder) Desired {
	name := ownership.DerivedName(b.Import)
	a := readAddresses(b.State, nil)
	followed := a.recorded
	if othersKeptIt(b.Import) { // ips are the addresses of a Service that is gone.
		followed = parse(b.Import.Spec.IPs)
	}
	// Waiting does not help, and no client must be sent to these addresses in the meantime.
	if gone := b.elsewhere(followed); len(gone) > 0 {
		var d Desired
		if d.clearIPs(b, gone...); !equality.Semantic.DeepEqual(b.Import, d.Import) {
			return d
		}
		if len(a.recorded) > 0 {
			a.recorded = stillFirst(a.recorded, gone)
		}
	}
	if faults := validation.IsDNS1123Label(name); len(faults) > 0 {
		return Desired{Ready: readyFor(ReasonInvalidName, "%q in the annotation %s is not a valid name of a Service: %s",
			brief.Clip(name), mcs.AnnotationDerivedService, strings.Join(faults, "; "))}
	}
	// A Service of the controller under a former name is deleted first: the new Service takes over
	// its addresses (C24).
	if others := otherServices(b.State); len(others) > 0 {
		return Desired{Delete: notDeleted(others), Ready: readyFor(ReasonPending, "waiting for the deletion of Service %s", others[0].Name)}
	}
	w := readService(b, a)
	if len(w.ports) == 0 {
		return Desired{Ready: noPorts(w)}
	}
	if r, refused := refusedWhole(b.refused); refused {
		return Desired{Ready: readyFor(ReasonRefused, "Service %s cannot be created: %s", name, r.Message)}
	}
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Import.Namespace, Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP},
	}
	switch early, none := b.allocate(&svc.Spec, a.recorded, w.families); {
	case early: // Another address is the last resort. A condition would only change back and forth.
		return Desired{}
	case none:
		return Desired{Ready: noAddress(b, w)}
	}
	own(svc, b.Import, b.CRD)
	w.write(svc)
	return Desired{Service: svc}
}

func noPorts(w desiredService) Ready {
	v := readyFor(ReasonNoPorts, "the import has no valid port: set spec.ports")
	v.Notes = w.notes
	return v
}

// noAddress separates a family that this cluster does not have (C27) from other address problems.
func noAddress(b builder, w desiredService) Ready {
	last := b.refused[len(b.refused)-1]
	if strings.HasPrefix(last.Field, fieldFamilies) {
		return readyFor(ReasonFamilies, "this cluster supports none of the address families %s: %s", w.families, last.Message)
	}
	return readyFor(ReasonRefused, "Service %s cannot get an address: %s", ownership.DerivedName(b.Import), last.Message)
}

// syncOwned keeps the derived Service, the import's addresses and the slices in sync. It also does
// so while the Service is being deleted: a Service with a finalizer continues to serve, and the
// user who set the finalizer can edit it.
func syncOwned(b builder) Desired {
	svc := b.Service
	if svc.Spec.ClusterIP == corev1.ClusterIPNone {
		return remakeService(b)
	}
	a := readAddresses(b.State, ServiceAddresses(svc))
	w := readService(b, a)
	wanted, fault := syncService(b, a, w)
	wanted, held := contested.Without(b.Contested, svc, wanted)
	w.notes = append(w.notes, b.heldNotes(held)...)
	r, refused := refusedWhole(b.refused)
	refusal := ""
	if refused {
		wanted, refusal = svc, cmp.Or(r.Message, "without a reason")
	}
	d := Desired{Delete: notDeleted(otherServices(b.State)), Exclusive: true, Service: wanted}
	if !refused {
		d.ServiceStatus = w.ingress(b, svc)
	}
	d.keepAddresses(b, a, wanted, fault)
	w.noteUnserved(svc)
	d.Ready = readyOfOwned(svc, a, w, fault, refusal)
	return d
}

// ingress returns the Service with the user's addresses in its status, or nil if the status stays
// unchanged.
func (w *desiredService) ingress(b builder, svc *corev1.Service) *corev1.Service {
	status := vipStatus(svc, w.vips)
	if status == nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	if _, held := contested.Without(b.Contested, svc, status); len(held) > 0 {
		w.notes = append(w.notes, b.heldNotes(held)...)
		return nil
	}
	return status
}

// keepAddresses writes the addresses of the derived Service to the import. A second address that is
// being removed leaves ips at once.
func (d *Desired) keepAddresses(b builder, a addresses, wanted *corev1.Service, fault string) {
	switch current := ServiceAddresses(wanted); {
	case len(ServiceAddresses(b.Service)) > 0:
		// While the families are changing or not available, or if a user set ips, the import's
		// ipFamilies are the requested families and stay. If a VIP's families replaced them, these
		// would outlive the VIP and cost the Service an address (C24).
		move := !equality.Semantic.DeepEqual(b.Service.Spec.IPFamilyPolicy, wanted.Spec.IPFamilyPolicy)
		d.writeAddresses(b, a, current, !move && fault == "" && !a.userSet())
	case len(current) == 0: // the wanted Service does not request its former addresses either
		d.clearIPs(b)
	}
}

// remakeService handles a headless Service with the controller's marks. The controller creates no
// headless derived Service, and this one cannot get an address: a user has replaced the derived
// Service, whose address is now free for any other Service.
func remakeService(b builder) Desired {
	d := Desired{Delete: notDeleted(b.Owned), Ready: readyFor(ReasonPending, "Service %s is headless: the controller deletes it and creates it again", b.Service.Name)}
	d.clearIPs(b)
	return d
}

// readyOfOwned returns the condition of an import whose derived Service the controller owns. fault
// is the reason why the wanted families are not available. refusal is the reason why the API server
// refuses changes of the Service. Both are empty if there is no such problem.
func readyOfOwned(svc *corev1.Service, a addresses, w desiredService, fault, refusal string) Ready {
	var v Ready
	switch {
	case svc.DeletionTimestamp != nil:
		v = readyFor(ReasonPending, "Service %s is being deleted, and is created again afterwards", svc.Name)
	case len(ServiceAddresses(svc)) == 0:
		v = readyFor(ReasonPending, "Service %s has no address: delete it, and the controller creates it again with an address", svc.Name)
	case len(w.ports) == 0:
		return noPorts(w)
	case refusal != "":
		v = readyFor(ReasonRefused, "Service %s cannot be changed: %s", svc.Name, refusal)
	case fault != "":
		v = readyFor(ReasonFamilies, "%s", fault)
	case a.userSet() && len(w.vips) == 0:
		v = readyFor(ReasonInvalidIPs, "spec.ips contains only addresses that a Service cannot have: remove them to get the addresses of Service %s", svc.Name)
	case a.userSet():
		v = readyFor(ReasonReady, "served by Service %s and on %s, which somebody else set in spec.ips: remove this from spec.ips to use the Service's own address",
			svc.Name, strings.Join(format(w.vips), ", "))
	default:
		v = readyFor(ReasonReady, "served by Service %s", svc.Name)
	}
	v.Notes = w.notes
	return v
}

// writeAddresses writes the derived Service's addresses to the import, in one patch with the
// annotations that explain them: a crash never leaves one without the other. A user's ips stay.
// Addresses that were saved while the import was Headless are restored.
func (d *Desired) writeAddresses(b builder, a addresses, current []netip.Addr, families bool) {
	edited := b.Import.DeepCopy()
	annotate(edited, mcs.AnnotationDerivedService, b.Service.Name)
	annotate(edited, mcs.AnnotationClusterIPs, joinIPs(current))
	delete(edited.Annotations, mcs.AnnotationVIPs)
	ips := format(current)
	if a.userSet() {
		ips = a.keep
	}
	setIPs(edited, ips, b.CRD, families)
	d.setImport(b, edited)
	// If only a second address is added or removed with its family, the other address is unchanged.
	if len(missing(a.recorded, current)) > 0 && len(missing(current, a.recorded)) > 0 {
		d.Events = append(d.Events, Event{corev1.EventTypeWarning, EventAddressChanged,
			"the address of Service " + b.Service.Name + " changed: it was " + joinIPs(a.recorded) + " and is " + joinIPs(current)})
	}
}

// missing returns the elements of ips that are not in others.
func missing(ips, others []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(ips), func(ip netip.Addr) bool { return slices.Contains(others, ip) })
}
