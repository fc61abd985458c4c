package desired

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// desiredService contains what the import requests of its derived Service, without what a Service
// cannot have or the API server has refused.
type desiredService struct {
	ports        []corev1.ServicePort
	affinity     corev1.ServiceAffinity
	affinityConf *corev1.SessionAffinityConfig
	internal     corev1.ServiceInternalTrafficPolicy
	distribution *string
	families     []corev1.IPFamily
	vips         []netip.Addr
	// single means that the clusterset is known to give only one family.
	single bool
	// notes describe what was left out.
	notes []string
}

func readService(b builder, a addresses) desiredService {
	spec := b.Import.Spec
	w := desiredService{
		affinity:     corev1.ServiceAffinityNone,
		internal:     corev1.ServiceInternalTrafficPolicyCluster,
		distribution: spec.TrafficDistribution,
		families:     wantedFamilies(b, a.vips),
		vips:         a.vips,
		single:       b.owned && len(b.families) == 1,
		notes:        slices.Clone(a.notes),
	}
	ports, notes := usablePorts(spec.Ports)
	w.ports, w.notes = ports, append(w.notes, notes...)
	w.readAffinity(spec)
	w.readInternalPolicy(spec)
	for _, r := range b.refused {
		w.drop(r)
	}
	return w
}

// defaultAffinityTimeout is the API's default (10800 s): an import without a timeout then never
// differs from its Service.
const defaultAffinityTimeout = corev1.DefaultClientIPServiceAffinitySeconds

func (w *desiredService) readAffinity(spec mcsv1beta1.ServiceImportSpec) {
	switch spec.SessionAffinity {
	case "", corev1.ServiceAffinityNone:
		return
	case corev1.ServiceAffinityClientIP:
	default:
		w.note("sessionAffinity %q is unknown", brief.Clip(string(spec.SessionAffinity)))
		return
	}
	timeout := defaultAffinityTimeout
	if conf := spec.SessionAffinityConfig; conf != nil && conf.ClientIP != nil && conf.ClientIP.TimeoutSeconds != nil {
		if t := *conf.ClientIP.TimeoutSeconds; t >= 1 && t <= corev1.DefaultClientIPServiceAffinitySeconds*8 {
			timeout = t
		} else {
			w.note("the session affinity's timeout of %d s is out of range", t)
		}
	}
	w.affinity = corev1.ServiceAffinityClientIP
	w.affinityConf = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
}

func (w *desiredService) readInternalPolicy(spec mcsv1beta1.ServiceImportSpec) {
	if spec.InternalTrafficPolicy == nil {
		return
	}
	switch policy := *spec.InternalTrafficPolicy; policy {
	case corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal:
		w.internal = policy
	default:
		w.note("internalTrafficPolicy %q is unknown", brief.Clip(string(policy)))
	}
}

func (w *desiredService) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// syncService returns the desired derived Service. What others set on it stays. fault is the reason
// why the wanted families are not available; the families then stay unchanged.
func syncService(b builder, a addresses, w desiredService) (svc *corev1.Service, fault string) {
	svc = b.Service.DeepCopy()
	own(svc, b.Import, b.CRD)
	if len(w.ports) == 0 {
		// A Service needs a port. The last known ports stay, and the condition reports the problem.
		w.ports = svc.Spec.Ports
	}
	w.write(svc)
	if refusedAny(b.refused) {
		return svc, "the API server refused to change its address families"
	}
	// The Service was of type ExternalName in the meantime.
	if len(ServiceAddresses(svc)) == 0 && len(a.recorded) > 0 {
		svc.Spec.ClusterIPs = format(a.recorded)
		svc.Spec.ClusterIP = svc.Spec.ClusterIPs[0]
	}
	return svc, syncFamilies(svc, w)
}

// own marks the Service as the controller's: it sets the label, and the import as the owner, with
// the import's current UID and the served version. An import that is created again under its name
// thus takes over the Service and keeps its address. own does not set blockOwnerDeletion, which
// requires the permission to set finalizers.
func own(svc *corev1.Service, imp *mcsv1beta1.ServiceImport, crd observed.CRD) {
	if svc.Labels == nil {
		svc.Labels = map[string]string{}
	}
	svc.Labels[mcs.LabelManagedBy] = mcs.ControllerName
	svc.OwnerReferences = ownership.WithOwner(svc.OwnerReferences, imp, crd.APIVersion)
}

// write sets the desired fields of the Service, except the families, and removes everything that
// would send its traffic elsewhere or nowhere.
func (w *desiredService) write(svc *corev1.Service) {
	for _, key := range mcs.ProxyLabels {
		delete(svc.Labels, key)
	}
	spec := &svc.Spec
	spec.Selector = nil // With a selector, pods of this cluster would join the imported endpoints.
	spec.PublishNotReadyAddresses = false
	// A user with permission to edit this Service could take over the traffic of any address.
	spec.ExternalIPs = nil
	spec.Ports = mergePorts(spec.Ports, w.ports)
	spec.SessionAffinity, spec.SessionAffinityConfig = w.affinity, w.affinityConf
	spec.InternalTrafficPolicy = &w.internal
	spec.TrafficDistribution = w.distribution
	vipClass := spec.LoadBalancerClass != nil && *spec.LoadBalancerClass == mcs.LoadBalancerClass
	switch {
	case len(w.vips) > 0:
		// Since Kubernetes 1.29, only a Service of type LoadBalancer can have ingress addresses
		// (R5).
		spec.Type = corev1.ServiceTypeLoadBalancer
		spec.LoadBalancerClass, spec.AllocateLoadBalancerNodePorts = new(mcs.LoadBalancerClass), new(false)
		// Both fields can block clients of the addresses. No imported endpoint is local to a node.
		spec.LoadBalancerSourceRanges, spec.ExternalTrafficPolicy = nil, corev1.ServiceExternalTrafficPolicyCluster
	case spec.Type == corev1.ServiceTypeLoadBalancer && vipClass, spec.Type == corev1.ServiceTypeExternalName:
		spec.Type, spec.ExternalName = corev1.ServiceTypeClusterIP, ""
		spec.LoadBalancerClass, spec.AllocateLoadBalancerNodePorts, spec.ExternalTrafficPolicy = nil, nil, ""
		// The second family was perhaps requested only for the VIPs. syncFamilies requests it again
		// if the import wants it.
		if len(spec.IPFamilies) == 1 {
			spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
		}
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
}

// vipStatus returns the Service with the user's addresses as ingress, or nil if the Service has
// them already. Without VIPs it returns nil: the ingress disappears with the type.
func vipStatus(svc *corev1.Service, vips []netip.Addr) *corev1.Service {
	if len(vips) == 0 {
		return nil
	}
	ingress := make([]corev1.LoadBalancerIngress, 0, len(vips))
	for _, vip := range vips {
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: vip.String(), IPMode: new(corev1.LoadBalancerIPModeVIP)})
	}
	if equality.Semantic.DeepEqual(svc.Status.LoadBalancer.Ingress, ingress) {
		return nil
	}
	edited := svc.DeepCopy()
	edited.Status.LoadBalancer.Ingress = ingress
	return edited
}

// drop leaves out what the API server refused, if a Service can exist without it.
func (w *desiredService) drop(r observed.Refusal) {
	switch i, isPort := refusedPort(r); {
	case isPort && i < len(w.ports):
		w.note("port %s was refused: %s", describe(w.ports[i]), brief.Clip(r.Message))
		w.ports = slices.Delete(w.ports, i, i+1)
	case r.Field == fieldDistribution && w.distribution != nil:
		w.note("trafficDistribution %q was refused: this API server does not know it", brief.Clip(*w.distribution))
		w.distribution = nil
	}
}

const (
	fieldDistribution = "spec.trafficDistribution"
	fieldClusterIPs   = "spec.clusterIP" // and spec.clusterIPs[0]
	fieldFamilies     = "spec.ipFamil"   // spec.ipFamilies[0], spec.ipFamilyPolicy
)

func refusedPort(r observed.Refusal) (index int, ok bool) {
	n, err := fmt.Sscanf(r.Field, "spec.ports[%d]", &index)
	return index, n == 1 && err == nil
}

func refusedAddress(r observed.Refusal) bool {
	return strings.HasPrefix(r.Field, fieldClusterIPs) || strings.HasPrefix(r.Field, fieldFamilies)
}

// refusedWhole returns a refusal that leaving out a field cannot fix: a name, a quota, a webhook.
func refusedWhole(refused []observed.Refusal) (observed.Refusal, bool) {
	for _, r := range refused {
		if _, isPort := refusedPort(r); !isPort && !refusedAddress(r) && r.Field != fieldDistribution {
			return r, true
		}
	}
	return observed.Refusal{}, false
}

func refusedAny(refused []observed.Refusal) bool { return slices.ContainsFunc(refused, refusedAddress) }
