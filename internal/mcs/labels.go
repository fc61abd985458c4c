package mcs

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// AnnotationExports, on an import of the controller, records what each exporting cluster reported
// when the import was last written. While a cluster is silent after a restart of this process, or
// its Service is gone for a moment, the record replaces the cluster in the merge, so that the
// import follows the other clusters in the meantime.
const AnnotationExports = "clusterset-dns.io/exports"

// AnnotationExported, on an import, lists the keys of the labels and annotations that came from an
// export. When another export wins, the keys of the former winner are removed (C18). Keys that
// others added to the import stay.
const AnnotationExported = "clusterset-dns.io/exported"

// Only returns the entries of all with these keys, or nil if there are none.
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

// These are labels and annotations that mcs-api v0.5.2 has no constant for.
const (
	// AnnotationDerivedService names the derived Service on the import (R2).
	AnnotationDerivedService = "multicluster.kubernetes.io/derived-service"
	// AnnotationClusterIPs, on the import, records the addresses of the derived Service that the
	// controller made. If it is absent on an import with AnnotationDerivedService, another
	// controller or a user made that Service.
	AnnotationClusterIPs = "clusterset-dns.io/cluster-ips"
	// AnnotationVIPs, on a Headless import, saves the addresses that a user set. They are restored
	// when the type changes back.
	AnnotationVIPs = "clusterset-dns.io/vips"

	// LabelManagedBy with the value ControllerName marks the Services that the controller made.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ControllerName is the name of the controller: the label's value, the field manager and the
	// reporter of events.
	ControllerName = "multicluster-controller"

	// AnnotationHiddenPorts, on a slice of the own cluster's endpoints, contains as JSON the ports
	// that lost a conflict: they receive no traffic (C14), or have another name in the import. Peers can
	// see another conflict, and read these ports from the annotation.
	AnnotationHiddenPorts = "clusterset-dns.io/hidden-ports"
	// AnnotationCopyOf, on a slice of the controller in an import of others, names the slice that
	// it copies.
	AnnotationCopyOf = "clusterset-dns.io/copy-of"
	// AnnotationTerms, on a slice of the own cluster's endpoints, describes the exported Service to
	// peers: the JSON of merge.ServiceSpec.
	AnnotationTerms = "clusterset-dns.io/terms"
	// AnnotationPreferClusters, on a ServiceExport or ServiceImport, lists the clusters that get the
	// traffic, the most preferred first. Package preference describes the list.
	AnnotationPreferClusters = "clusterset-dns.io/prefer-clusters"
	// AnnotationMinReady is the number of ready endpoints that an entry of that list needs.
	AnnotationMinReady = "clusterset-dns.io/min-ready"
	// AnnotationToClusters, on a ServiceExport, lists the IDs of the other clusters that import the
	// name. Without it, all do.
	AnnotationToClusters = "clusterset-dns.io/to-clusters"
	// AnnotationReturnAfter is how long an earlier entry of that list must have enough ready
	// endpoints before it is used again.
	AnnotationReturnAfter = "clusterset-dns.io/return-after"
	// AnnotationProbe with the value "true", on a ServiceExport or ServiceImport, asks for TCP
	// connections to the endpoints of other clusters: those that accept none get no traffic. "false"
	// on a ServiceImport refuses it.
	AnnotationProbe = "clusterset-dns.io/probe"
	// AnnotationFailing, on a slice of the controller, lists the addresses and ports of endpoints that
	// are ready in their cluster and do not accept connections from this one, with commas.
	AnnotationFailing = "clusterset-dns.io/failing"
	// LabelStandby, on a slice of the controller, marks the endpoints of a cluster that another one is
	// preferred to. preference.Standby has its values.
	LabelStandby = "clusterset-dns.io/standby"
	// AnnotationNativeName with the value "true", on a ServiceExport, a ServiceImport or a Service, asks
	// for the Service's own name: clients of an importing cluster reach the other clusters under it.
	// "false" on a ServiceImport or a Service refuses it.
	AnnotationNativeName = "clusterset-dns.io/native-name"
	// AnnotationNativeIPs, on an import of the controller, records the ClusterIPs of the Service with
	// the import's own name.
	AnnotationNativeIPs = "clusterset-dns.io/native-cluster-ips"
	// LabelNativeOf marks the Services that the controller made under the own name of an import, and
	// the EndpointSlices that it attached to such a Service, or to a user's. The value is the name of
	// the import.
	LabelNativeOf = "clusterset-dns.io/native-of"
	// LabelPeer marks the Secrets with a peer's kubeconfig, and the Leases with what is known of
	// the peer.
	LabelPeer = "clusterset-dns.io/peer"
	// AnnotationClusterUID is the UID of the namespace kube-system: on the Lease that announces a cluster that of this cluster, and
	// on the Lease of a peer that of the cluster that the controller was last connected to. Two clusters can announce one ID by mistake.
	AnnotationClusterUID = "clusterset-dns.io/cluster-uid"

	// LabelKarmadaManaged and AnnotationKarmadaWork mark what Karmada propagated to a member
	// cluster (K13).
	LabelKarmadaManaged   = "karmada.io/managed"
	AnnotationKarmadaWork = "work.karmada.io/name"
	// AnnotationCiliumFamilies is on each ServiceImport that Cilium (since 1.19) keeps, from its
	// creation on. It can be empty.
	AnnotationCiliumFamilies = "clustermesh.cilium.io/supported-ip-families"
	// LabelSubmarinerNamespace is on the ServiceImports that Submariner's agent keeps in its own
	// namespace, one for each exported Service. SubmarinerSlices is the value of
	// endpointslice.kubernetes.io/managed-by on its EndpointSlices. Its other imports have no mark.
	LabelSubmarinerNamespace = "lighthouse.submariner.io/sourceNamespace"
	SubmarinerSlices         = "lighthouse-agent.submariner.io"
	// AnnotationKosmosAddress is on each ServiceImport that Kosmos has made a Service for.
	AnnotationKosmosAddress = "kosmos.io/address"
	// KarmadaSlices is the value of endpointslice.kubernetes.io/managed-by on the EndpointSlices that
	// Karmada collects from the exporting clusters and propagates with a ServiceImport.
	KarmadaSlices = "endpointslice-controller.karmada.io"

	// LoadBalancerClass is the class of a derived Service that answers on a user's VIPs. No cloud
	// controller acts on a class that it does not know.
	LoadBalancerClass = "clusterset-dns.io/vip"
)

// ClusterIDFault returns what is wrong with a cluster's ID, or "" if the ID is valid. An ID is a
// DNS subdomain (C45, C51), and a label's value (C34), so it has at most 63 bytes.
func ClusterIDFault(id string) string {
	if len(id) > validation.LabelValueMaxLength {
		return fmt.Sprintf("is longer than the %d bytes that a label's value may have", validation.LabelValueMaxLength)
	}
	if faults := validation.IsDNS1123Subdomain(id); len(faults) > 0 {
		return "is not a DNS name: " + faults[0]
	}
	return ""
}

// ProxyLabels hide a Service from kube-proxy. On an EndpointSlice, kube-proxy only reads the second
// label, which removes the slice from it. The first label has no effect there (observed with 1.36.3
// and 1.37.1, TestKubeProxyKeepsWhatLosesItsLabel).
var ProxyLabels = []string{"service.kubernetes.io/service-proxy-name", corev1.IsHeadlessService}

// reservedDomains, and the domains below them, are the domains of keys that an import never takes
// over from an export, because controllers act on them. A user of a namespace of some cluster
// writes the export. A controller that can write imports everywhere writes the import. Keys of this
// project would point to addresses and Services (AnnotationVIPs, AnnotationDerivedService). Keys of
// Karmada and of other implementations would make the import look like one of theirs. Keys of
// Kubernetes are reserved for its components (such as kubectl's last-applied-configuration). By keys
// of deployers (Argo CD, Flux, Helm, kapp, Velero), these find the objects that they delete.
var reservedDomains = []string{
	"argoproj.io", "cilium.io", "clusterset-dns.io", "fluxcd.io", "helm.sh", "k14s.io", "k8s.io", "karmada.io", "kosmos.io", "kubernetes.io",
	"submariner.io", "velero.io", "x-k8s.io",
}

// appDomain is the domain of Kubernetes' recommended labels. They describe an application, and
// everyone can use them, except LabelManagedBy, which identifies the owner of an object, and
// labelInstance, by which Argo CD and others find the objects that they delete.
const (
	appDomain     = "app.kubernetes.io"
	labelInstance = appDomain + "/instance"
)

// Reserved reports whether an import never takes over a label or annotation with this key.
func Reserved(key string) bool {
	domain, _, prefixed := strings.Cut(strings.ToLower(key), "/")
	if !prefixed || domain == appDomain && key != LabelManagedBy && key != labelInstance {
		return false
	}
	return slices.ContainsFunc(reservedDomains, func(of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) })
}

// PortNamed returns the port with this name. The name can be empty.
func PortNamed(ports []mcsv1beta1.ServicePort, name string) (port mcsv1beta1.ServicePort, ok bool) {
	i := slices.IndexFunc(ports, func(p mcsv1beta1.ServicePort) bool { return p.Name == name })
	if i < 0 {
		return mcsv1beta1.ServicePort{}, false
	}
	return ports[i], true
}
