package mcs

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// AnnotationExports, on an import of ours, records what each exporting cluster gave when the import was written last. While a cluster is
// silent after a restart of this process, or its Service is gone for a moment, the record takes part in the merge in its place: so the
// import follows the other clusters meanwhile.
const AnnotationExports = "clusterset-dns.io/exports"

// AnnotationExported, on an import, lists the keys of the labels and annotations that came from an export. A former winner's go
// when another export takes its place (C18); what others put on the import stays.
const AnnotationExported = "clusterset-dns.io/exported"

func Only(all map[string]string, keys ...string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, ok := all[key]; ok {
			if kept == nil {
				kept = make(map[string]string, len(keys))
			}
			kept[key] = value
		}
	}
	return kept
}

// Labels and annotations that mcs-api v0.5.2 has no constant for.
const (
	// AnnotationDerivedService names the derived Service on the import (R2).
	AnnotationDerivedService = "multicluster.kubernetes.io/derived-service"
	// AnnotationClusterIPs, on the import, remembers the addresses of the derived Service that we made. Its absence on an
	// import whose AnnotationDerivedService is set means: someone else made that Service.
	AnnotationClusterIPs = "clusterset-dns.io/cluster-ips"
	// AnnotationVIPs, on a Headless import, keeps the addresses that a user had set, for the flip back.
	AnnotationVIPs = "clusterset-dns.io/vips"

	// LabelManagedBy with the value Manager marks the Services that we made.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// Manager is our name: the label's value, the field manager and the reporter of events.
	ControllerName = "multicluster-controller"

	// AnnotationHiddenPorts, on a slice of the own cluster's endpoints, holds as JSON the ports that lost a conflict and are not led
	// to (C14). Peers, whose view of the conflict may be another one, take them from there.
	AnnotationHiddenPorts = "clusterset-dns.io/hidden-ports"
	// AnnotationCopyOf, on a slice of ours in an import of others, names the slice that it is a copy of.
	AnnotationCopyOf = "clusterset-dns.io/copy-of"
	// AnnotationClusterID, on the namespace of a controller, is how it announces its cluster's id to its peers, who watch Namespaces.
	AnnotationClusterID = "clusterset-dns.io/cluster-id"
	// LabelPeer marks the Secrets that hold a peer's kubeconfig, and the Leases that hold what is known of it.
	LabelPeer = "clusterset-dns.io/peer"

	// LabelKarmadaManaged and AnnotationKarmadaWork mark what Karmada put into a member cluster (K13).
	LabelKarmadaManaged   = "karmada.io/managed"
	AnnotationKarmadaWork = "work.karmada.io/name"

	// LoadBalancerClass is of a derived Service that answers on a user's VIPs. No cloud controller acts on a foreign class.
	LoadBalancerClass = "clusterset-dns.io/vip"
)

// ClusterIDFault says what is wrong with a cluster's id; empty if nothing. An id is a DNS subdomain (C45, C51), and a label's value
// (C34), so that one of over 63 bytes cannot be.
func ClusterIDFault(id string) string {
	if len(id) > validation.LabelValueMaxLength {
		return fmt.Sprintf("is longer than the %d bytes that a label's value may have", validation.LabelValueMaxLength)
	}
	if faults := validation.IsDNS1123Subdomain(id); len(faults) > 0 {
		return "is no DNS name: " + faults[0]
	}
	return ""
}

// ProxyLabels take a Service away from kube-proxy. Of an EndpointSlice kube-proxy knows the second only, which deletes the slice for it; the
// first has no effect there (seen with 1.36.3 and 1.37.1, TestKubeProxyKeepsWhatLosesItsLabel).
var ProxyLabels = []string{"service.kubernetes.io/service-proxy-name", corev1.IsHeadlessService}

// reservedDomains, and the domains below them, are of keys that an import takes over from nobody: controllers act on them. An
// export is written by a user of a namespace of some cluster, the import by a controller that may write it everywhere. Ours
// would point at addresses and Services (AnnotationVIPs, AnnotationDerivedService); Karmada's would have the import handled as one
// that Karmada manages; those of Kubernetes are reserved for its components (kubectl's last-applied-configuration is one).
var reservedDomains = []string{"clusterset-dns.io", "k8s.io", "karmada.io", "kubernetes.io", "x-k8s.io"}

// appDomain is that of Kubernetes' recommended labels. They describe an application, and are for everyone to use; but
// LabelManagedBy says whose object it is.
const appDomain = "app.kubernetes.io"

func Reserved(key string) bool {
	domain, _, prefixed := strings.Cut(strings.ToLower(key), "/")
	if !prefixed || domain == appDomain && key != LabelManagedBy {
		return false
	}
	return slices.ContainsFunc(reservedDomains, func(of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) })
}

func PortNamed(ports []mcsv1beta1.ServicePort, name string) (port mcsv1beta1.ServicePort, ok bool) {
	i := slices.IndexFunc(ports, func(p mcsv1beta1.ServicePort) bool { return p.Name == name })
	if i < 0 {
		return mcsv1beta1.ServicePort{}, false
	}
	return ports[i], true
}
