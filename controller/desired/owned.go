package desired

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// stillFirst are the addresses that are not gone: none where the first is, whose family is the Service's first. The other one, asked for by
// itself, would be first for good.
func stillFirst(recorded, gone []netip.Addr) []netip.Addr {
	if slices.Contains(gone, recorded[0]) {
		return nil
	}
	return missing(recorded, gone)
}

// createService makes the derived Service. The rest needs the addresses that it gets.
func createService(b builder) Desired {
	name := ownership.DerivedName(b.Import)
	a := readAddresses(b.State, nil)
	followed := a.recorded
	if othersKeptIt(b.Import) { // ips are the addresses of a Service that is gone.
		followed = parse(b.Import.Spec.IPs)
	}
	if gone := b.elsewhere(followed); len(gone) > 0 { // Waiting is no use, and no client may be sent there meanwhile.
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

// syncOwned holds our Service, the import's addresses and the slices in line. So it does with a Service that is being deleted: while a
// finalizer holds it, it serves on, and the user who set that can edit it.
func syncOwned(b builder) Desired {
	svc := b.Service
	if svc.Spec.ClusterIP == corev1.ClusterIPNone {
		return remakeService(b)
	}
	a := readAddresses(b.State, ServiceAddresses(svc))
	w := readService(b, a)
	wanted, fault := syncService(b.State, a, w)
	w.notes = append(w.notes, b.Contested.YieldService(svc, wanted)...)
	r, refused := refusedWhole(b.Refused)
	refusal := ""
	if refused {
		wanted, refusal = svc, cmp.Or(r.Message, "it gives no reason")
	}
	d := Desired{Delete: notDeleted(otherServices(b.State)), Exclusive: true, Service: wanted, Retry: refused}
	if !refused {
		d.ServiceStatus = w.ingress(b, svc)
	}
	d.keepAddresses(b, a, wanted, fault)
	w.noteUnserved(svc)
	d.Ready = readyOfOwned(svc, a, w, fault, refusal)
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
	switch current := ServiceAddresses(wanted); {
	case len(ServiceAddresses(b.Service)) > 0:
		// While the families are on the move, or cannot be had, or the ips are not ours, the import's ipFamilies are a wish and
		// stay: written over with a VIP's, they would outlive it and cost the Service an address (C24).
		move := !equality.Semantic.DeepEqual(b.Service.Spec.IPFamilyPolicy, wanted.Spec.IPFamilyPolicy)
		d.writeAddresses(b, a, current, !move && fault == "" && !a.userSet())
	case len(current) == 0: // nor asks for those that it had
		d.takeBack(b)
	}
}

// remakeService is for a headless Service under our marks. We made none, and it cannot get an address: a user has replaced ours with it,
// whose address is free for every other Service.
func remakeService(b builder) Desired {
	d := Desired{Delete: notDeleted(b.Owned), Ready: readyFor(ReasonPending, "Service %s is headless: it is deleted and will be made again", b.Service.Name)}
	d.takeBack(b)
	return d
}

// readyOfOwned is the condition of an import with a derived Service of ours. fault is why its families cannot be had, refusal why the API
// server takes no change of it; empty for none.
func readyOfOwned(svc *corev1.Service, a addresses, w desiredService, fault, refusal string) Ready {
	var v Ready
	switch {
	case svc.DeletionTimestamp != nil:
		v = readyFor(ReasonPending, "Service %s is being deleted and will be made again", svc.Name)
	case len(ServiceAddresses(svc)) == 0:
		v = readyFor(ReasonPending, "Service %s has no address: delete it, and it is made again with one", svc.Name)
	case len(w.ports) == 0:
		return noPorts(w)
	case refusal != "":
		v = readyFor(ReasonRefused, "Service %s cannot be changed: %s", svc.Name, refusal)
	case fault != "":
		v = readyFor(ReasonFamilies, "%s", fault)
	case a.userSet() && len(w.vips) == 0:
		v = readyFor(ReasonInvalidIPs, "spec.ips, set by hand or copied, holds no address that a Service may answer on: empty it to get those of Service %s", svc.Name)
	case a.userSet():
		v = readyFor(ReasonReady, "served by Service %s, also on %s, set in spec.ips by hand or copied: empty it to get the Service's addresses",
			svc.Name, strings.Join(format(w.vips), ", "))
	default:
		v = readyFor(ReasonReady, "served by Service %s", svc.Name)
	}
	v.Notes = w.notes
	return v
}

// writeAddresses puts our Service's addresses onto the import, in one patch with the annotations that explain them: a crash
// never leaves the one without the other. A user's ips stay; those that a flip to Headless had put aside come back.
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
	// A second address that comes or goes with its family is no change of the others.
	if len(missing(a.recorded, current)) > 0 && len(missing(current, a.recorded)) > 0 {
		d.Events = append(d.Events, Event{corev1.EventTypeWarning, EventAddressChanged,
			"the address of Service " + b.Service.Name + " changed: it was " + joinIPs(a.recorded) + " and is " + joinIPs(current)})
	}
}

// missing are those of ips that are not among others.
func missing(ips, others []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(ips), func(ip netip.Addr) bool { return slices.Contains(others, ip) })
}
