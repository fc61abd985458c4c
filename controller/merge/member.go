package merge

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Member is what one cluster of the clusterset reports of one name, a Service in a namespace. The
// values belong to a store and are read-only.
type Member struct {
	// Cluster is the cluster's ID: one DNS label, or several (C45).
	Cluster string
	// Export is the cluster's ServiceExport, or nil if there is none.
	Export *Export
	// Service is the cluster's Service, or nil if there is none.
	Service *ServiceSpec
	// Slices contain the cluster's endpoints. For the own cluster, they are the Service's slices.
	// For a peer, they are the slices that the peer's controller made from them. TrimSlice trims
	// both.
	Slices []*discoveryv1.EndpointSlice
	// Assumed means that the cluster does not answer, and that nothing proves its death. Its
	// endpoints are used only if no other cluster has a ready one.
	Assumed bool
	// Properties are the cluster's ClusterProperties, by their names. They are read-only.
	Properties map[string]string
}

// Exports reports whether the cluster exports the name with a Service that can be exported (C1,
// C4).
func (m Member) Exports() bool {
	return m.Export != nil && m.Service != nil && !m.Service.External
}

// Export is what other clusters see of a ServiceExport. TrimExport makes it. Its size has a limit:
// a ServiceExport can contain 1 MB of labels and annotations, and every cluster of the clusterset
// keeps every Export in memory.
type Export struct {
	// Created decides conflicts: the oldest export wins (C11).
	Created metav1.Time
	// Labels and Annotations are those that a ServiceImport takes over (C5), at most MaxExported
	// bytes. They are read-only.
	Labels, Annotations map[string]string
	// AllLabels and AllAnnotations are digests of all labels and annotations of the ServiceExport,
	// so that a difference in those that are left out is also a conflict (C7). The zero value is
	// the digest of an empty set.
	AllLabels, AllAnnotations Digest
	// Notes describe the labels and annotations that are left out.
	Notes []string
	// Preference are the annotations that choose between the clusters.
	Preference preference.Texts
	// Consumers are the clusters that import the name.
	Consumers Consumers
	// NativeName means that clients of the importing clusters are to reach the name as the Service's
	// own.
	NativeName bool
	// Probe means that importing clusters connect to the endpoints all the time.
	Probe bool
	// Invalid means that a peer says it has no Service to export: its condition Valid is False (C8).
	Invalid bool
}

// ServiceSpec is the part of a Service that an import takes over (C5). The record in the annotation
// clusterset-dns.io/exports uses the same field names, and so does the description for peers. A renamed
// field is lost in existing records, and in descriptions by other versions. A new field is zero in them,
// so that such a cluster seems to disagree.
type ServiceSpec struct {
	// External marks an ExternalName Service, which is not exported (C4). No other field is set
	// then.
	External bool
	// Type is Headless if clusterIP is None. Node ports and load balancers are not exported (C3).
	Type  mcsv1beta1.ServiceImportType
	Ports []mcsv1beta1.ServicePort
	// Affinity is None or ClientIP. AffinityTimeout is in seconds, or 0 without affinity.
	Affinity        corev1.ServiceAffinity
	AffinityTimeout int32
	// InternalPolicy is Cluster or Local.
	InternalPolicy corev1.ServiceInternalTrafficPolicy
	// Distribution is the trafficDistribution, or empty for none.
	Distribution string
	// Families are in the Service's order.
	Families []corev1.IPFamily
}

// TrimExport returns what other clusters see of a ServiceExport. It returns nil for a ServiceExport
// that is being deleted, because that no longer exports anything (C2).
func TrimExport(export *mcsv1beta1.ServiceExport) *Export {
	if export.DeletionTimestamp != nil {
		return nil
	}
	if e := untrimmings(export); e != nil {
		return e
	}
	e := &Export{
		Created:        export.CreationTimestamp,
		AllLabels:      digest(export.Spec.ExportedLabels),
		AllAnnotations: digest(export.Spec.ExportedAnnotations),
		Preference:     preference.Read(export.Annotations),
		Consumers:      readConsumers(export.Annotations),
		NativeName:     mcs.AnswerOf(export.Annotations, mcs.AnnotationNativeName) == mcs.Yes,
		Probe:          mcs.AnswerOf(export.Annotations, mcs.AnnotationProbe) == mcs.Yes,
	}
	e.takeOver(export.Spec.ExportedLabels, export.Spec.ExportedAnnotations)
	return e
}

// Same reports whether two exports have the same content.
func (e *Export) Same(other *Export) bool {
	return e.Invalid == other.Invalid && e.Created.Equal(&other.Created) && e.AllLabels == other.AllLabels && e.AllAnnotations == other.AllAnnotations &&
		e.Preference == other.Preference && e.NativeName == other.NativeName && e.Probe == other.Probe && (e.Consumers == nil) == (other.Consumers == nil) && slices.Equal(e.Consumers, other.Consumers)
}

// TrimService returns the part of a Service that an import takes over.
func TrimService(svc *corev1.Service) *ServiceSpec {
	spec := &svc.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		return &ServiceSpec{External: true}
	}
	t := &ServiceSpec{
		Type:           mcsv1beta1.ClusterSetIP,
		Affinity:       cmp.Or(spec.SessionAffinity, corev1.ServiceAffinityNone),
		InternalPolicy: corev1.ServiceInternalTrafficPolicyCluster,
		Families:       spec.IPFamilies,
	}
	if spec.ClusterIP == corev1.ClusterIPNone {
		t.Type = mcsv1beta1.Headless
	}
	if t.Affinity == corev1.ServiceAffinityClientIP {
		t.AffinityTimeout = corev1.DefaultClientIPServiceAffinitySeconds
		if conf := spec.SessionAffinityConfig; conf != nil && conf.ClientIP != nil && conf.ClientIP.TimeoutSeconds != nil {
			t.AffinityTimeout = *conf.ClientIP.TimeoutSeconds
		}
	}
	if spec.InternalTrafficPolicy != nil {
		t.InternalPolicy = *spec.InternalTrafficPolicy
	}
	if spec.TrafficDistribution != nil {
		t.Distribution = *spec.TrafficDistribution
	}
	for _, p := range spec.Ports {
		t.Ports = append(t.Ports, mcsv1beta1.ServicePort{
			Name: p.Name, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), AppProtocol: p.AppProtocol, Port: p.Port,
		})
	}
	return t
}
