package merge

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Member is what one cluster of the clusterset says of one name, a namespace's Service. The values belong to a store and are read
// only.
type Member struct {
	// Cluster is its id: a DNS label, or several (C45).
	Cluster string
	// Export is its ServiceExport, nil where it has none.
	Export *Export
	// Service is its Service, nil where it has none.
	Service *ServiceSpec
	// Slices hold its endpoints. Those of the own cluster are the Service's; those of a peer are what the peer's controller made of
	// them. Both are trimmed by TrimSlice.
	Slices []*discoveryv1.EndpointSlice
}

// Exports is true where the cluster exports the name, and its Service is one that can be (C1, C4).
func (m Member) Exports() bool {
	return m.Export != nil && m.Service != nil && !m.Service.External
}

// Export is what others see of a ServiceExport. TrimExport makes it. Its size has a limit: a ServiceExport can hold 1 MB of labels
// and annotations, and every cluster of the clusterset keeps every Export in memory.
type Export struct {
	// Created decides conflicts: the oldest export wins (C11).
	Created metav1.Time
	// Labels and Annotations are those that a ServiceImport takes over (C5), at most MaxExported bytes. They are read only.
	Labels, Annotations map[string]string
	// AllLabels and AllAnnotations are digests of everything that the ServiceExport has, so that a difference is a conflict (C7) also
	// where it is in what is left out. The zero value is the digest of an empty set.
	AllLabels, AllAnnotations Digest
	// Notes are on labels and annotations that are left out.
	Notes []string
}

// ServiceSpec is the part of a Service that an import takes over (C5). The names of its fields are also those of the record in the annotation
// clusterset-dns.io/exports: a field that is renamed is lost in existing records, and a new one is zero in them, so that a silent cluster seems to
// disagree until it is read again.
type ServiceSpec struct {
	// External marks an ExternalName Service, which is not exported (C4); nothing else is set then.
	External bool
	// Type is Headless where clusterIP is None; node ports and load balancers stay local (C3).
	Type  mcsv1beta1.ServiceImportType
	Ports []mcsv1beta1.ServicePort
	// Affinity is None or ClientIP. AffinityTimeout is in seconds, 0 without affinity.
	Affinity        corev1.ServiceAffinity
	AffinityTimeout int32
	// InternalPolicy is Cluster or Local.
	InternalPolicy corev1.ServiceInternalTrafficPolicy
	// Distribution is the trafficDistribution, empty for none.
	Distribution string
	// Families are in the Service's order.
	Families []corev1.IPFamily
}

// TrimExport keeps what others see of a ServiceExport: nil for one that is being deleted, as it exports no longer (C2).
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
	}
	e.takeOver(export.Spec.ExportedLabels, export.Spec.ExportedAnnotations)
	return e
}

// Same is true where two exports have the same content.
func (e *Export) Same(other *Export) bool {
	return e.Created.Equal(&other.Created) && e.AllLabels == other.AllLabels && e.AllAnnotations == other.AllAnnotations
}

// TrimService keeps what an import takes over from a Service.
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
