package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// AnnotationExported, on an import, lists the keys of the labels and annotations that came from an export. A former winner's go
// when another export takes its place (C18); what others put on the import stays.
const AnnotationExported = "clusterset-dns.io/exported"

func only(all map[string]string, keys ...string) map[string]string {
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
	LabelManagedBy = ownership.LabelManagedBy
	// Manager is our name: the label's value, the field manager and the reporter of events.
	Manager = ownership.Controller

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
	LabelKarmadaManaged   = ownership.LabelKarmadaManaged
	AnnotationKarmadaWork = ownership.AnnotationKarmadaWork

	// LoadBalancerClass is of a derived Service that answers on a user's VIPs. No cloud controller acts on a foreign class.
	LoadBalancerClass = "clusterset-dns.io/vip"
)

const derivedPrefix = "derived-"

// DerivedName is the name of the import's derived Service: what the annotation says, else derived-<name> as in Karmada (K1).
// A name that no Service can bear (too long, dotted) is shortened with a hash of its namespace and name; the separator in the
// hashed text keeps «a/bc» and «ab/c» apart.
func DerivedName(imp *mcsv1beta1.ServiceImport) string {
	plain := derivedPrefix + imp.Name
	if ownership.ByKarmada(imp) {
		return plain // Karmada does not shorten: what does not fit does not exist there either.
	}
	if name := imp.Annotations[AnnotationDerivedService]; name != "" {
		return name
	}
	return naturalName(imp.Namespace, imp.Name)
}

// naturalName is the name of an import's derived Service unless an annotation gives another.
func naturalName(namespace, name string) string {
	plain := derivedPrefix + name
	if len(validation.IsDNS1035Label(plain)) == 0 {
		return plain
	}
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	hash := "-" + hex.EncodeToString(sum[:])[:10]
	stem := strings.ReplaceAll(plain, ".", "-")
	stem = stem[:min(len(stem), validation.DNS1035LabelMaxLength-len(hash))]
	return strings.TrimRight(stem, "-") + hash
}

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

// AnnotationExports, on an import of ours, records what each exporting cluster gave when the import was written last. While a cluster is
// silent after a restart of this process, or its Service is gone for a moment, the record takes part in the merge in its place: so the
// import follows the other clusters meanwhile.
const AnnotationExports = "clusterset-dns.io/exports"

// proxyLabels take a Service, or an EndpointSlice, away from kube-proxy: its addresses would lead nowhere.
var proxyLabels = []string{"service.kubernetes.io/service-proxy-name", corev1.IsHeadlessService}
