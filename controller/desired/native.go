package desired

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// Native is the desired state of the Service with the import's own name, and of the slices that are
// attached to it. The zero value leaves everything unchanged.
type Native struct {
	// Apply is the Service to create or to correct. Delete is a Service of the controller that is not
	// needed. Release is a Service of the controller that a user has taken over: it loses the
	// controller's mark, and keeps everything else. At most one of them is set.
	Apply, Delete, Release *corev1.Service
	// Slices are the slices to attach. They are the zero value if the slices stay unchanged.
	Slices Slices
	// Preferred is the choice between the clusters.
	Preferred Preferred
	// Condition is the import's condition NativeName. Its Reason is "" if the condition stays
	// unchanged, and NativeUnused if there is none.
	Condition Ready
	// Again is the time until the state can change by itself, 0 for never.
	Again time.Duration
}

// These are reasons of the condition NativeName.
const (
	// NativeUnused means that the import has no condition.
	NativeUnused = "Unused"
	// NativeOwnService means that the controller made the Service.
	NativeOwnService = "OwnService"
	// NativeAttached means that endpoints are attached to a user's Service.
	NativeAttached = "Attached"
	// NativeWaiting means that a user has deleted the Service a moment ago.
	NativeWaiting = "Waiting"
	// NativeNotAllowed means that this cluster does not allow exports to ask for it.
	NativeNotAllowed = "NotAllowed"
	// NativeUnsupported means that no endpoints can be attached to the Service.
	NativeUnsupported = "UnsupportedService"
	// NativeRefused means that the API server refuses the Service.
	NativeRefused = "ServiceRefused"
	// NativeMalformed means that an annotation has no effect.
	NativeMalformed = "MalformedAnnotation"
)

// native returns what belongs to the own name of an import that the controller owns.
//
//  1. A Service of the controller that a user has taken over is released.
//  2. Without a Service, the controller makes one. If the Service was deleted, it waits for a
//     moment: commands such as kubectl replace --force create it again.
//  3. The endpoints of the other clusters are attached to the Service, of a user or of the controller.
//     The Service keeps its own endpoints, which are always connected.
//  4. If the name is no longer wanted, exactly what the controller made goes.
func (b builder) native() Native {
	if b.Native == nil {
		return Native{}
	}
	svc, answer := b.Native.Service, b.nativeAnswer()
	switch fault := b.nativeFault(); {
	case svc != nil && ownership.TakenOver(svc):
		return Native{Release: svc}
	case answer.unknown:
		return Native{}
	case !answer.wanted || fault != "":
		n := b.removeNative()
		n.Condition = answer.Ready
		if answer.wanted {
			n.Condition = readyFor(NativeUnsupported, "%s", fault)
		}
		return n
	case svc == nil && b.Native.Vacant > 0:
		return Native{Again: b.Native.Vacant, Condition: readyFor(NativeWaiting, "Service %s was deleted: unless a user creates it again within seconds, the controller does so", b.Name)}
	case svc == nil || ownership.NativeService(svc):
		return b.nativeService()
	default:
		return b.attach(svc)
	}
}

// nativeAnswer is whether the own name of an import is wanted. Its Ready is the condition if it is
// not. unknown means that the export that decides is not known.
type nativeAnswer struct {
	wanted, unknown bool
	Ready
}

// nativeAnswer returns the first answer of the user's Service, of the import, and of the oldest
// export. The export's counts only in a namespace that this cluster's administrators allow.
func (b builder) nativeAnswer() nativeAnswer {
	answer := nativeAnswer{Ready: Ready{Reason: NativeUnused}}
	var malformed []string
	for _, of := range []struct {
		kind string
		metav1.Object
	}{{"Service", b.usersService()}, {"ServiceImport", b.Import}} {
		if of.Object == (*corev1.Service)(nil) {
			continue
		}
		switch mcs.AnswerOf(of.GetAnnotations(), mcs.AnnotationNativeName) {
		case mcs.Yes:
			answer.wanted = true
			return answer
		case mcs.No:
			return answer
		case mcs.Malformed:
			malformed = append(malformed, fmt.Sprintf("the annotation %s of this %s is %q, want \"true\" or \"false\", so it has no effect",
				mcs.AnnotationNativeName, of.kind, brief.Clip(of.GetAnnotations()[mcs.AnnotationNativeName])))
		}
	}
	active := len(b.Native.Slices) > 0 || b.Native.Service != nil && ownership.NativeService(b.Native.Service)
	switch {
	case len(b.missing) > 0 && active:
		answer.unknown = true
	case b.merged.NativeName && b.Native.Allowed:
		answer.wanted = true
	case len(malformed) > 0:
		answer.Ready = readyFor(NativeMalformed, "%s", malformed[0])
	case b.merged.NativeName:
		answer.Ready = readyFor(NativeNotAllowed, "the oldest ServiceExport asks for the name %s.%s.svc, which --native-names of the controller does not allow here. To allow it for this name, set the annotation %s of this ServiceImport to \"true\"",
			b.Name, b.Namespace, mcs.AnnotationNativeName)
	}
	return answer
}

// usersService returns the Service with the own name, or nil if there is none, or if the controller
// made it.
func (b builder) usersService() *corev1.Service {
	if svc := b.Native.Service; svc != nil && !ownership.NativeService(svc) {
		return svc
	}
	return nil
}

// nativeFault returns why the own name cannot lead to other clusters, or "" if it can.
func (b builder) nativeFault() string {
	name, svc := b.Name, b.usersService()
	switch {
	case len(validation.IsDNS1123Label(name)) > 0:
		return fmt.Sprintf("no Service can have the name %q", name)
	case name == "kubernetes" && b.Namespace == metav1.NamespaceDefault:
		return "Service kubernetes is that of the API server"
	case ownership.DerivedName(b.Import) == name:
		return fmt.Sprintf("Service %s is the derived Service of this import: remove the annotation %s of the import", name, mcs.AnnotationDerivedService)
	case svc == nil:
		return ""
	case len(ownership.OwnerImports(svc)) > 0:
		return fmt.Sprintf("Service %s is the derived Service of ServiceImport %s", name, ownership.OwnerImports(svc)[0])
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		return fmt.Sprintf("Service %s has the type ExternalName, which has no endpoints: delete it, or give it another type", name)
	default:
		return ""
	}
}

// nativeEnds reports whether the own name ends with the import, which is withdrawn, or which another
// user has taken over. Without an import, a cluster that is silent may still export the name.
func (b builder) nativeEnds(d Desired) bool {
	if b.Import == nil {
		return d.Withdrawn && len(b.Clusterset.Silent) == 0
	}
	return d.Withdrawn || !ownership.OfImport(b.Import)
}

// removeNative removes what the controller made for the own name, and nothing else.
func (b builder) removeNative() Native {
	n := Native{Condition: Ready{Reason: NativeUnused}}
	if b.Native == nil {
		return n
	}
	n.Slices = Slices{Complete: true}
	switch svc := b.Native.Service; {
	case svc == nil:
	case ownership.TakenOver(svc):
		n.Release = svc
	case ownership.NativeService(svc) && svc.DeletionTimestamp == nil:
		n.Delete = svc
	}
	return n
}

// attach connects the endpoints of the other clusters to a user's Service.
func (b builder) attach(svc *corev1.Service) Native {
	n, notes := b.attached(svc)
	n.Condition = readyFor(NativeAttached, "the endpoints of other clusters are attached to Service %s", svc.Name)
	n.Condition.Notes = notes
	if home := b.homeID(); len(n.Preferred.Clusters) > 0 && !slices.Contains(n.Preferred.Clusters, home) && len(b.Native.Local) > 0 {
		n.Condition.Notes = append(n.Condition.Notes, "standby of this cluster, because Kubernetes manages its endpoints of Service "+svc.Name+": while they are ready, they get traffic too")
	}
	return n
}

// nativeService makes a Service for the endpoints of the other clusters, or keeps it in sync.
func (b builder) nativeService() Native {
	n, _ := b.attached(nil)
	want, fault := b.wantedNative()
	have := b.Native.Service
	n.Condition = readyFor(NativeOwnService, "Service %s leads to the endpoints of other clusters", b.Name)
	switch {
	case fault.Reason != "":
		n.Condition = fault
	case want == nil: // It is too early to request other addresses.
	case have == nil:
		n.Apply = want
	case have.DeletionTimestamp != nil: // It is created again when it is gone.
	case (have.Spec.ClusterIP == corev1.ClusterIPNone) != (want.Spec.ClusterIP == corev1.ClusterIPNone):
		n.Delete = have // A Service cannot change that.
	case !sameNative(have, want):
		n.Apply = want
	}
	return n
}

// recordNative records the addresses of the Service with the own name, so that a Service that
// replaces it can have them. Without the own name, it removes the record.
func (b builder) recordNative(imp metav1.Object) {
	if b.Native == nil || b.Import == nil {
		return
	}
	annotations := imp.GetAnnotations()
	switch answer := b.nativeAnswer(); {
	case answer.unknown:
	case !answer.wanted:
		delete(annotations, mcs.AnnotationNativeIPs)
	default:
		if text := joinIPs(ServiceAddresses(b.Native.Service)); text != "" {
			annotations[mcs.AnnotationNativeIPs] = text
		}
	}
}

// wantedNative returns the Service that the controller makes under the own name, with the fields
// that it sets. It returns nil if the former addresses must be requested again, and a fault if there
// cannot be such a Service.
func (b builder) wantedNative() (svc *corev1.Service, fault Ready) {
	own := b
	own.refused = b.Refused.Service(b.Name)
	w := readService(own, addresses{})
	headless := b.merged.Type == mcsv1beta1.Headless
	if r, refused := refusedWhole(own.refused); refused {
		return nil, readyFor(NativeRefused, "Service %s: %s", b.Name, brief.ClipTo(300, r.Message))
	}
	if len(w.ports) == 0 && !headless {
		return nil, readyFor(NativeRefused, "Service %s needs a port, and the exports have no valid one", b.Name)
	}
	svc = &corev1.Service{}
	svc.Namespace, svc.Name = b.Namespace, b.Name
	svc.Labels = map[string]string{mcs.LabelNativeOf: b.Name}
	svc.Spec.Ports = w.ports
	if headless {
		svc.Spec.ClusterIP = corev1.ClusterIPNone
		return svc, Ready{}
	}
	svc.Spec.SessionAffinity, svc.Spec.SessionAffinityConfig = w.affinity, w.affinityConf
	svc.Spec.InternalTrafficPolicy, svc.Spec.TrafficDistribution = &w.internal, w.distribution
	if have := b.Native.Service; have != nil {
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = have.Spec.ClusterIP, have.Spec.ClusterIPs
		svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy = have.Spec.IPFamilies, have.Spec.IPFamilyPolicy
		return svc, Ready{}
	}
	switch early, none := own.allocate(&svc.Spec, splitIPs(b.Import.Annotations[mcs.AnnotationNativeIPs]), w.families); {
	case early:
		return nil, Ready{}
	case none:
		return nil, readyFor(NativeRefused, "Service %s cannot get an address: %s", b.Name, brief.ClipTo(300, own.refused[len(own.refused)-1].Message))
	}
	return svc, Ready{}
}

// sameNative reports whether a Service has the fields that the controller wants. It ignores what
// others add (ownership.KeepApplied leaves out their ports), and the targetPort: no pod has one.
func sameNative(have, want *corev1.Service) bool {
	samePort := func(a, b corev1.ServicePort) bool {
		return a.Name == b.Name && a.Protocol == b.Protocol && a.Port == b.Port && deref(a.AppProtocol, "") == deref(b.AppProtocol, "")
	}
	a, b := have.Spec, want.Spec
	if !slices.EqualFunc(a.Ports, b.Ports, samePort) || have.Labels[mcs.LabelNativeOf] != want.Labels[mcs.LabelNativeOf] {
		return false
	}
	return b.ClusterIP == corev1.ClusterIPNone || a.SessionAffinity == b.SessionAffinity &&
		equality.Semantic.DeepEqual(a.SessionAffinityConfig, b.SessionAffinityConfig) &&
		equality.Semantic.DeepEqual(a.InternalTrafficPolicy, b.InternalTrafficPolicy) &&
		equality.Semantic.DeepEqual(a.TrafficDistribution, b.TrafficDistribution)
}

// defaultPreference is for an own name without a list of clusters: its clients go on as before while
// one endpoint of their own cluster is ready.
const defaultPreference = "local, any"

// attached returns the slices to attach, as the choice between the clusters connects them. svc is
// the user's Service, or nil. notes describe the ports that svc lacks.
func (b builder) attached(svc *corev1.Service) (n Native, notes []string) {
	n.Slices, notes = b.nativeSlices(svc)
	own := b
	own.Slices, own.Preference = b.Native.Slices, b.NativePreference
	c := own.clustersOf(n.Slices)
	if svc != nil { // Otherwise they are what a deleted Service has left behind, and are evicted.
		c.addLocal(b.Native.Local)
	}
	n.Preferred = own.choose(&n.Slices, nativePolicy(preference.Read(b.Import.Annotations), b.merged.Preference), c)
	n.Again = n.Preferred.Choice.Again
	return n, notes
}

// nativePolicy returns the policy of an own name.
func nativePolicy(ofImport, ofExport preference.Texts) preference.Policy {
	p := preference.Resolve(ofImport, ofExport)
	if len(p.Entries) == 0 {
		p.Entries = preference.Resolve(preference.Texts{Clusters: defaultPreference}, preference.Texts{}).Entries
	}
	return p
}

// nativeSlices returns the slices to attach to the Service with the own name: one for each slice of
// another cluster. Kubernetes changes the Service's own endpoints without the controller. The next
// clusters are therefore in reserve: kube-proxy uses them at the moment at which the last local
// endpoint is no longer ready, and the controller follows.
func (b builder) nativeSlices(svc *corev1.Service) (s Slices, notes []string) {
	s = Slices{Service: b.Name, Home: b.homeID(), Awaited: b.awaited, Disconnect: true, Reserve: svc != nil, Complete: true}
	others := slices.DeleteFunc(slices.Clone(b.members), func(m merge.Member) bool { return m.Cluster == s.Home })
	m := &sliceBuilder{
		home: s.Home, name: b.name(), merged: b.merged, most: b.Clusterset.MaxEndpoints, service: svc, wanted: map[string]*discoveryv1.EndpointSlice{},
	}
	switch {
	case svc != nil:
		m.merged.Distribution = deref(svc.Spec.TrafficDistribution, "")
		notes = missingPorts(svc, others)
	case b.merged.Type == mcsv1beta1.ClusterSetIP:
		m.alias = aliasOfUnnamed(b.merged.Ports)
	}
	for _, slice := range m.of(others) {
		if svc != nil && len(svc.Spec.Ports) > 0 && len(slice.Ports) == 0 {
			continue // kube-proxy would not use it, and DNS would return its addresses.
		}
		for i := range slice.Endpoints {
			if svc != nil { // DNS would give the pods db-0 of two clusters one name.
				slice.Endpoints[i].Hostname = nil
			}
		}
		delete(slice.Labels, mcsv1beta1.LabelServiceName)
		slice.Labels[mcs.LabelNativeOf] = b.Name
		s.Associate(b.name(), slice)
		s.Wanted = append(s.Wanted, slice)
	}
	slices.SortFunc(s.Wanted, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return s, notes
}

func hasPort(svc *corev1.Service, name string, protocol corev1.Protocol) bool {
	return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == name && p.Protocol == protocol })
}

// missingPorts returns notes on the ports of other clusters that a user's Service lacks.
func missingPorts(svc *corev1.Service, others []merge.Member) []string {
	var notes []string
	for _, m := range others {
		if !m.Exports() {
			continue
		}
		for _, p := range m.Service.Ports {
			if len(svc.Spec.Ports) == 0 || hasPort(svc, p.Name, p.Protocol) {
				continue
			}
			note := fmt.Sprintf("port %q (%s) of other clusters: Service %s has no port of this name and protocol", brief.Clip(p.Name), p.Protocol, svc.Name)
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	return notes
}
