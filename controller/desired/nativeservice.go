package desired

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

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
	return own.nativeAddresses(svc, w)
}

// nativeAddresses requests the recorded addresses, and others if the API server refuses these.
func (b builder) nativeAddresses(svc *corev1.Service, w desiredService) (*corev1.Service, Ready) {
	refused := b.refused
	recorded := splitIPs(b.Import.Annotations[mcs.AnnotationNativeIPs])
	ways := allocationAttempts(recorded, w.families)
	tried := 0
	for _, r := range refused {
		if refusedAddress(r) {
			tried++
		}
	}
	switch {
	case tried >= len(ways):
		return nil, readyFor(NativeRefused, "Service %s cannot get an address: %s", b.Name, brief.ClipTo(300, refused[len(refused)-1].Message))
	case tried > 0 && b.KeepTrying && len(ways[0].ips) > 0:
		return nil, Ready{} // The API server releases the address of a deleted Service a moment later.
	}
	way := ways[tried]
	svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy, svc.Spec.ClusterIPs = way.families, way.policy, format(way.ips)
	if len(way.ips) > 0 {
		svc.Spec.ClusterIP = svc.Spec.ClusterIPs[0]
	}
	return svc, Ready{}
}

// sameNative reports whether a Service has the fields that the controller wants. It ignores what
// others add (ownership.KeepApplied leaves out their ports), and the targetPort: no pod has one.
func sameNative(have, want *corev1.Service) bool {
	type port struct {
		name     string
		protocol corev1.Protocol
		port     int32
		app      string
	}
	ports := func(svc *corev1.Service) (all []port) {
		for _, p := range svc.Spec.Ports {
			one := port{p.Name, p.Protocol, p.Port, ""}
			if p.AppProtocol != nil {
				one.app = *p.AppProtocol
			}
			all = append(all, one)
		}
		return all
	}
	a, b := have.Spec, want.Spec
	if !slices.Equal(ports(have), ports(want)) || have.Labels[mcs.LabelNativeOf] != want.Labels[mcs.LabelNativeOf] {
		return false
	}
	return b.ClusterIP == corev1.ClusterIPNone || a.SessionAffinity == b.SessionAffinity &&
		equality.Semantic.DeepEqual(a.SessionAffinityConfig, b.SessionAffinityConfig) &&
		equality.Semantic.DeepEqual(a.InternalTrafficPolicy, b.InternalTrafficPolicy) &&
		equality.Semantic.DeepEqual(a.TrafficDistribution, b.TrafficDistribution)
}
