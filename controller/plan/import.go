package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Import plans what is missing for one ServiceImport. The package's comment has the order of the rules.
func Import(st State) Changes {
	imp := st.Import
	if imp == nil || imp.DeletionTimestamp != nil {
		return Changes{}
	}
	if st.led == nil {
		st.led = ledTo(st)
	}
	switch {
	case !ImportIsOurs(imp):
		mirrored := othersMirrored(st)
		st.notes = slices.Concat(mirrored.notes, st.notes)
		c := mirrored.with(ofKind(st))
		if KindOf(imp, st.Service) == Ours { // Of another Service, its maker heals what it leaks.
			c.Heal = mirrored.leaked()
		}
		return c
	case st.Clusterset == nil:
		kept := keptAlone(st)
		st.notes = slices.Concat(kept.notes, st.notes)
		c := kept.with(ofKind(st))
		c.Heal = kept.leaked()
		return c
	default:
		return ofKind(st) // maintain adds the slices
	}
}

// ofKind is what an import needs besides slices, by its type and by who keeps it.
func ofKind(st State) Changes {
	imp := st.Import
	switch {
	case KarmadaManaged(imp):
		return followOnly(st)
	case imp.Spec.Type == mcsv1beta1.Headless:
		return headless(st)
	case imp.Spec.Type == mcsv1beta1.ClusterSetIP:
		return clusterSetIP(st)
	default:
		return settle(st, Changes{}, is(ReasonUnknownType, "type %q is neither ClusterSetIP nor Headless", clip(string(imp.Spec.Type))))
	}
}

func clusterSetIP(st State) Changes {
	switch KindOf(st.Import, st.Service) {
	case Absent:
		return create(st)
	case Ours:
		return keep(st)
	case ReadOnly:
		return follow(st)
	default:
		return foreign(st)
	}
}

// foreign takes back what led to our Service of this name: its addresses may be somebody else's by now, and the Service that has
// the name would get the imported endpoints. The annotation remembers the addresses for the return. Where ours still stands
// under a former name, it goes on serving.
func foreign(st State) Changes {
	var c Changes
	if madeByUs(st.Import) && !slices.ContainsFunc(st.Owned, st.serves) {
		c.takeBack(st)
	}
	return settle(st, c, is(ReasonForeignService,
		"Service %s exists and is not this import's: delete it, or name another in the annotation %s; to use it as it is, name it there and remove the annotation %s",
		st.Service.Name, AnnotationDerivedService, AnnotationClusterIPs))
}

// takeBack empties ips: DNS would lead to whoever has these addresses next. A user's stay, but for those of ours among them that are gone.
// ipFamilies are the wish for the return.
func (c *Changes) takeBack(st State, gone ...string) {
	edited := st.Import.DeepCopy()
	var left []string
	if readAddresses(st, nil).userSet() {
		left = slices.DeleteFunc(slices.Clone(edited.Spec.IPs), func(ip string) bool {
			return slices.ContainsFunc(canonical([]string{ip}), func(addr string) bool { return slices.Contains(gone, addr) })
		})
	}
	setIPs(edited, left, st.CRD, false)
	c.editImport(st, edited)
}

// serves is true for our Service of the derived name, and for one under a former name that the import's slices are led to. Our marks
// alone are quickly set by others.
func (st State) serves(svc *corev1.Service) bool {
	ours := svc.Namespace == st.Import.Namespace && slices.Contains(OwnerImports(svc), st.Import.Name)
	return ours && (svc.Name == DerivedName(st.Import) || slices.Contains(st.led, svc.Name))
}

// ledTo are the Services that the import's slices lead to; those that Kubernetes makes of a Service do not count.
func ledTo(st State) []string {
	var names []string
	for _, slice := range st.Slices {
		if !slices.Contains(foreignSliceManagers, slice.Labels[discoveryv1.LabelManagedBy]) && (SliceIsOurs(slice, st.Import) || !ImportIsOurs(st.Import)) {
			names = append(names, slice.Labels[discoveryv1.LabelServiceName])
		}
	}
	return names
}

// elsewhere are those of ips that Services have which do not serve the import.
func (st State) elsewhere(ips []string) []string {
	var theirs []string
	for _, svc := range st.Holders {
		if !st.serves(svc) {
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

// create makes the derived Service. Nothing else is planned with it: the rest needs the addresses that it gets.
func create(st State) Changes {
	name := DerivedName(st.Import)
	a := readAddresses(st, nil)
	followed := a.recorded
	if othersKeptIt(st.Import) { // ips are the addresses of a Service that is gone.
		followed = canonical(st.Import.Spec.IPs)
	}
	if gone := st.elsewhere(followed); len(gone) > 0 { // There is nothing to be patient for, and nobody may be led there meanwhile.
		var c Changes
		if c.takeBack(st, gone...); c.Import != nil {
			return c
		}
		if len(a.recorded) > 0 {
			a.recorded = stillFirst(a.recorded, gone)
		}
	}
	if faults := validation.IsDNS1035Label(name); len(faults) > 0 {
		return settle(st, Changes{}, is(ReasonInvalidName, "no Service can be called %q, as annotation %s has it: %s",
			clip(name), AnnotationDerivedService, strings.Join(faults, "; ")))
	}
	// One of ours under a former name goes first: the new one takes over its addresses (C24).
	if others := otherServices(st); len(others) > 0 {
		return settle(st, Changes{Delete: living(others)}, is(reasonPending, "waiting for Service %s to go", others[0].Name))
	}
	w := readWishes(st, a)
	if len(w.ports) == 0 {
		return settle(st, Changes{}, noPorts(w))
	}
	if r, refused := refusedWhole(st.Refused); refused {
		return settle(st, Changes{Retry: true}, is(ReasonRefused, "Service %s cannot be made: %s", name, r.Message))
	}
	if st.Patient && len(st.Refused) > 0 && len(waysToAddresses(a.recorded, w.families)[0].ips) > 0 {
		return Changes{Soon: true} // C24: another address is the last resort. The condition would only flicker.
	}
	svc, ok := newService(st, a, w)
	if !ok {
		return settle(st, Changes{Retry: true}, noAddress(st, w))
	}
	return Changes{Create: svc}
}

func noPorts(w wishes) verdict {
	v := is(ReasonNoPorts, "the import has no port that a Service can have: set spec.ports")
	v.notes = w.notes
	return v
}

// noAddress tells a family that this cluster lacks (C27) from other trouble with addresses.
func noAddress(st State, w wishes) verdict {
	last := st.Refused[len(st.Refused)-1]
	if strings.HasPrefix(last.Field, fieldFamilies) {
		return is(reasonFamilies, "this cluster gives a Service none of the families %s: %s", w.families, last.Message)
	}
	return is(ReasonRefused, "Service %s gets no address: %s", DerivedName(st.Import), last.Message)
}

// keep holds our Service, the import's addresses and the slices in line. So it does with a Service that is being deleted: while a
// finalizer holds it, it serves on, and whoever set that may edit it.
func keep(st State) Changes {
	svc := st.Service
	if svc.Spec.ClusterIP == corev1.ClusterIPNone {
		return remake(st)
	}
	current := clusterIPs(svc)
	a := readAddresses(st, current)
	w := readWishes(st, a)
	c := Changes{Delete: living(otherServices(st)), Evict: evicted(st)}

	wanted, fault := syncService(st, a, w)
	w.notes = append(w.notes, st.Contested.yieldService(svc, wanted)...)
	r, refused := refusedWhole(st.Refused)
	familiesMove := false
	if !refused && !equality.Semantic.DeepEqual(svc, wanted) {
		c.Service = &Edit[*corev1.Service]{svc, wanted}
		current = clusterIPs(wanted) // A second address that goes is out of ips at once.
		familiesMove = !equality.Semantic.DeepEqual(svc.Spec.IPFamilyPolicy, wanted.Spec.IPFamilyPolicy)
	} else if status := vipStatus(svc, w.vips); !refused && status != nil && svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		if st.Contested.holds(FieldIngress, ingressOf(status)) {
			w.notes = append(w.notes, st.Contested.note(FieldIngress))
		} else {
			c.ServiceStatus = &Edit[*corev1.Service]{svc, status}
		}
	}

	switch {
	case len(clusterIPs(svc)) > 0:
		// While the families are on the move, or cannot be had, or the ips are not ours, the import's ipFamilies are a wish and
		// stay: written over with a VIP's, they would outlive it and cost the Service an address (C24).
		c.writeAddresses(st, a, current, !familiesMove && fault == "" && !a.userSet())
	case len(current) == 0: // nor asks for those that it had
		c.takeBack(st)
	}
	if c.Service == nil {
		w.noteUnserved(svc)
	}
	c.Retry = refused
	return settle(st, c, keepVerdict(st, a, w, fault, r, refused))
}

// remake is for a headless Service under our marks. We made none, and it cannot get an address: somebody has put it in the place of ours,
// whose address is free for every other Service.
func remake(st State) Changes {
	c := Changes{Delete: living(st.Owned)}
	c.takeBack(st)
	return settle(st, c, is(reasonPending, "Service %s is headless: it is deleted and will be made again", st.Service.Name))
}

func keepVerdict(st State, a addresses, w wishes, fault string, r Refusal, refused bool) verdict {
	svc := st.Service
	var v verdict
	switch {
	case svc.DeletionTimestamp != nil:
		v = is(reasonPending, "Service %s is being deleted and will be made again", svc.Name)
	case len(clusterIPs(svc)) == 0:
		v = is(reasonPending, "Service %s has no address: delete it, and it is made again with one", svc.Name)
	case len(w.ports) == 0:
		return noPorts(w)
	case refused:
		v = is(ReasonRefused, "Service %s cannot be changed: %s", svc.Name, r.Message)
	case fault != "":
		v = is(reasonFamilies, "%s", fault)
	case a.userSet() && len(w.vips) == 0:
		v = is(ReasonInvalidIPs, "spec.ips, set by hand or copied, holds no address that a Service may answer on: empty it to get those of Service %s", svc.Name)
	case a.userSet():
		v = is(reasonReady, "served by Service %s, also on %s, set in spec.ips by hand or copied: empty it to get the Service's addresses",
			svc.Name, strings.Join(w.vips, ", "))
	default:
		v = is(reasonReady, "served by Service %s", svc.Name)
	}
	v.notes = w.notes
	return v
}

// writeAddresses puts our Service's addresses onto the import, in one patch with the annotations that explain them: a crash
// never leaves the one without the other. A user's ips stay; those that a flip to Headless had put aside come back.
func (c *Changes) writeAddresses(st State, a addresses, current []string, families bool) {
	edited := st.Import.DeepCopy()
	annotate(edited, AnnotationDerivedService, st.Service.Name)
	annotate(edited, AnnotationClusterIPs, strings.Join(current, ","))
	delete(edited.Annotations, AnnotationVIPs)
	ips := current
	if a.userSet() {
		ips = a.keep
	}
	setIPs(edited, ips, st.CRD, families)
	c.editImport(st, edited)
	// A second address that comes or goes with its family is no change of the others.
	if len(missing(a.recorded, current)) > 0 && len(missing(current, a.recorded)) > 0 {
		c.Events = append(c.Events, Event{corev1.EventTypeWarning, EventAddressChanged,
			"the address of Service " + st.Service.Name + " changed: it was " + strings.Join(a.recorded, ",") + " and is " + strings.Join(current, ",")})
	}
}

// missing are those of ips that are not among others.
func missing(ips, others []string) []string {
	return slices.DeleteFunc(slices.Clone(ips), func(ip string) bool { return slices.Contains(others, ip) })
}

// headless takes away what a ClusterSetIP import had (C16, C25). The addresses stay remembered: the flip back brings them again.
func headless(st State) Changes {
	var c Changes
	edited := st.Import.DeepCopy()
	if a := usersAddresses(st); a.userSet() {
		annotate(edited, AnnotationVIPs, strings.Join(splitIPs(strings.Join(a.keep, ",")), ","))
	}
	setIPs(edited, nil, st.CRD, st.shared == nil || len(st.families) > 0)
	if st.CRD.IPFamilies && len(st.families) > 0 {
		edited.Spec.IPFamilies = st.families // of the endpoints (C19)
	}
	c.editImport(st, edited)
	c.Delete = living(st.Owned)
	return settle(st, c, is(reasonReady, "headless: no derived Service is needed"))
}

// othersKeptIt is true for an import whose annotation names a Service that we did not make.
func othersKeptIt(imp *mcsv1beta1.ServiceImport) bool {
	return imp.Annotations[AnnotationDerivedService] != "" && !madeByUs(imp)
}

// usersAddresses are the ips that a user set; none where others keep the Service, whose addresses they then are.
func usersAddresses(st State) addresses {
	othersKeepIt := othersKeptIt(st.Import)
	switch kind := KindOf(st.Import, st.Service); {
	case len(st.Import.Spec.IPs) == 0:
		return addresses{}
	case kind == Ours:
		return readAddresses(st, clusterIPs(st.Service))
	case kind == ReadOnly, othersKeepIt:
		return addresses{}
	default:
		return readAddresses(st, nil)
	}
}

// otherServices are those of ours that do not bear the derived name, sorted.
func otherServices(st State) []*corev1.Service {
	name := DerivedName(st.Import)
	return sorted(slices.DeleteFunc(slices.Clone(st.Owned), func(svc *corev1.Service) bool { return svc.Name == name }))
}

// living leaves out what is being deleted already.
func living(services []*corev1.Service) []*corev1.Service {
	return sorted(slices.DeleteFunc(slices.Clone(services), func(svc *corev1.Service) bool { return svc.DeletionTimestamp != nil }))
}

func sorted(services []*corev1.Service) []*corev1.Service {
	slices.SortFunc(services, func(a, b *corev1.Service) int { return cmp.Compare(a.Name, b.Name) })
	return services
}

// setIPs writes ips, as many as the CRD holds, and their families in the same order (C19).
func setIPs(imp *mcsv1beta1.ServiceImport, ips []string, crd CRD, families bool) {
	imp.Spec.IPs = slices.Clone(ips[:min(len(ips), crd.MaxIPs)])
	if crd.IPFamilies && families {
		imp.Spec.IPFamilies = familiesOf(imp.Spec.IPs)
	}
}

func annotate(imp *mcsv1beta1.ServiceImport, key, value string) {
	if imp.Annotations == nil {
		imp.Annotations = map[string]string{}
	}
	imp.Annotations[key] = value
}

// yieldsIPs is true where ips are not to be set to what they should be, because another writer keeps setting them back.
func (st State) yieldsIPs(ips []string) bool {
	return !slices.Equal(st.Import.Spec.IPs, ips) && st.Contested.holds(FieldIPs, ips)
}

// editImport plans the edit if it is one. nil and empty are the same: neither is written.
func (c *Changes) editImport(st State, edited *mcsv1beta1.ServiceImport) {
	old := st.Import
	if st.yieldsIPs(edited.Spec.IPs) {
		edited.Spec.IPs, edited.Spec.IPFamilies = old.Spec.IPs, old.Spec.IPFamilies
		c.YieldsIPs = true
	}
	st.Contested.yieldMetadata(old, edited)
	same := slices.Equal(old.Spec.IPs, edited.Spec.IPs) && slices.Equal(old.Spec.IPFamilies, edited.Spec.IPFamilies) &&
		maps.Equal(old.Annotations, edited.Annotations)
	if !same {
		c.Import = &Edit[*mcsv1beta1.ServiceImport]{old, edited}
	}
}
