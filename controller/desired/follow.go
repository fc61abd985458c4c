package desired

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// followService copies the addresses of a Service that others manage. No annotation marks these
// addresses as the controller's, so ips always follow the Service.
func followService(b builder) Desired {
	edited := b.Import.DeepCopy()
	current := ServiceAddresses(b.Service)
	if len(current) == 0 {
		d := Desired{Ready: readyFor(ReasonPending, "Service %s, which another writer manages, has no address", b.Service.Name)}
		b.withoutTaken(edited)
		d.setImport(b, edited)
		return d
	}
	d := Desired{Delete: notDeleted(otherServices(b.State)), Ready: readyFor(ReasonReady, "served by Service %s, which another writer manages", b.Service.Name)}
	annotate(edited, mcs.AnnotationDerivedService, b.Service.Name)
	setIPs(edited, format(current), b.CRD, true)
	d.setImport(b, edited)
	if len(b.Service.Spec.Selector) > 0 {
		d.Ready.Notes = []string{"the imported endpoints, because Service " + b.Service.Name + " selects pods of this cluster"}
	}
	return d
}

// followKarmada handles an import that Karmada manages: it gets addresses, and nothing else. Its
// slices are copied (copiesOfKarmada).
func followKarmada(b builder) Desired {
	d := Desired{Ready: readyFor(ReasonPending, "Karmada has not propagated Service %s", ownership.DerivedName(b.Import))}
	edited := b.Import.DeepCopy()
	switch current := ServiceAddresses(b.Service); {
	case b.Import.Spec.Type == mcsv1beta1.Headless:
		d.Ready = readyFor(ReasonReady, "headless")
		setIPs(edited, nil, b.CRD, true)
	case len(current) > 0:
		setIPs(edited, format(current), b.CRD, true)
		d.Ready = readyFor(ReasonReady, "spec.ips follows Service %s: %s", b.Service.Name, strings.Join(edited.Spec.IPs, ", "))
		d.Events = b.filled(d.Ready)
	default:
		b.withoutTaken(edited)
	}
	d.setImport(b, edited)
	return d
}

// leaveTo handles an import that another implementation keeps: nothing is written. It replaces each
// value that another controller writes to the import. A Service that the controller had derived
// before, when the import had no mark yet, serves until ips are not its addresses. Cilium replaces
// these; the others do not write ips.
func leaveTo(keeper string, b builder) Desired {
	before := b.derivedBefore()
	missing := b.Import.Spec.Type == mcsv1beta1.ClusterSetIP && len(b.Import.Spec.IPs) == 0
	switch {
	case keeper == ownership.Cilium && (before != nil || missing):
		return Desired{Ready: readyFor(ReasonPending, "Cilium has not set spec.ips to the addresses of its Service")}
	case before != nil:
		d := Desired{Ready: readyFor(ReasonPending, "kept by %s", keeper)}
		d.clearIPs(b)
		return d
	default:
		return Desired{Delete: notDeleted(b.Owned), Ready: readyFor(ReasonReady, "kept by %s", keeper)}
	}
}

// derivedBefore returns the Service that the controller derived from an import before another
// implementation kept it, as long as ips are its addresses; otherwise nil.
func (b builder) derivedBefore() *corev1.Service {
	if b.Import.Spec.Type != mcsv1beta1.ClusterSetIP {
		return nil
	}
	ips := parse(b.Import.Spec.IPs)
	for _, svc := range b.Owned {
		if slices.ContainsFunc(ServiceAddresses(svc), func(ip netip.Addr) bool { return slices.Contains(ips, ip) }) {
			return svc
		}
	}
	return nil
}

// filled returns the event of a write of ips. There is none for a value that another writer removes:
// the controller tries it again and again.
func (b builder) filled(r Ready) []Event {
	if b.LastReady.Reason == ReasonContested || b.LastReady.Message == r.Message {
		return nil
	}
	return []Event{{corev1.EventTypeNormal, r.Reason, r.Message}}
}

// withoutTaken removes the addresses from ips that another Service has by now. The Service that ips
// followed has no address, and DNS would send clients to the other Service.
func (b builder) withoutTaken(edited *mcsv1beta1.ServiceImport) {
	if taken := b.elsewhere(parse(edited.Spec.IPs)); len(taken) > 0 {
		setIPs(edited, without(edited.Spec.IPs, taken), b.CRD, true)
	}
}
