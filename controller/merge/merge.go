package merge

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Merged is the merge of the exports of one name: the content of the ServiceImport, which is the
// same in each cluster.
type Merged struct {
	// Clusters export the name, sorted. If there are none, there is no import (C22), and the other
	// fields are empty.
	Clusters []string
	Type     mcsv1beta1.ServiceImportType
	Ports    []mcsv1beta1.ServicePort
	// Affinity is None or ClientIP. AffinityTimeout is in seconds, or 0 without affinity. Neither
	// matters if Type is Headless.
	Affinity        corev1.ServiceAffinity
	AffinityTimeout int32
	InternalPolicy  corev1.ServiceInternalTrafficPolicy
	// Distribution is the trafficDistribution, or empty for none.
	Distribution string
	// Families are those that all exporters have. It is empty if no exporter names a family.
	Families []corev1.IPFamily
	// Labels and Annotations are those of the oldest export, without those that an import must not
	// take over. They are read-only.
	Labels, Annotations map[string]string
	// Preference are the annotations of the oldest export that choose between the clusters.
	Preference preference.Texts
	// NativeName and Probe are those of the oldest export.
	NativeName, Probe bool
	// Conflict describes where the exports disagree.
	Conflict
	// Notes describe the labels and annotations that were left out.
	Notes []string
}

// Merge returns the ServiceImport's content that follows from the exports of one name, and where
// the exports disagree. The order of the members does not matter. Members that do not export are
// ignored.
//
//  1. The oldest export wins, and the cluster's ID breaks ties (C11), also when a newer export
//     joins (C12). Its Service decides type, affinity, internalTrafficPolicy and
//     trafficDistribution (C5, C16, C17). The export itself decides labels and annotations, as
//     whole sets (C18).
//  2. Ports are the union of all (C13).
//  3. Families are those that each exporter has, so that each family reaches all backends. If there
//     is no such family, the oldest export's families are used (C19).
//  4. Each difference is a conflict (C7).
func Merge(members []Member) Merged {
	exporters := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return !m.Exports() })
	if len(exporters) == 0 {
		return Merged{}
	}
	slices.SortFunc(exporters, older)
	oldest := exporters[0].Service
	merged := Merged{
		Type:            oldest.Type,
		Ports:           unitePorts(exporters),
		Affinity:        oldest.Affinity,
		AffinityTimeout: oldest.AffinityTimeout,
		InternalPolicy:  oldest.InternalPolicy,
		Distribution:    oldest.Distribution,
		Families:        commonFamilies(exporters),
	}
	for _, m := range exporters {
		merged.Clusters = append(merged.Clusters, m.Cluster)
	}
	slices.Sort(merged.Clusters)
	export := exporters[0].Export
	merged.Labels, merged.Annotations, merged.Notes = export.Labels, export.Annotations, export.Notes
	merged.Preference, merged.NativeName, merged.Probe = export.Preference, export.NativeName, export.Probe
	merged.Conflict = conflicts(&merged, exporters)
	return merged
}

// older orders exports by precedence. Timestamps are whole seconds: two exports applied together
// often have the same age, and each cluster must break the tie in the same way (C11).
func older(a, b Member) int {
	return cmp.Or(a.Export.Created.Compare(b.Export.Created.Time), cmp.Compare(a.Cluster, b.Cluster))
}

// unitePorts returns the union of the exporters' ports: the oldest export's ports in its order,
// then the ports that each later export adds. Of two ports with the same name, or with the same
// protocol and number, the older export's port stays. The empty name counts like any other name
// (C13).
func unitePorts(exporters []Member) []mcsv1beta1.ServicePort {
	var union []mcsv1beta1.ServicePort
	for _, m := range exporters {
		for _, port := range m.Service.Ports {
			if _, clash := clashing(union, port); !clash {
				union = append(union, port)
			}
		}
	}
	return union
}

// clashing returns the port that cannot exist together with the given port: by name first, then by
// protocol and number (C13).
func clashing(ports []mcsv1beta1.ServicePort, port mcsv1beta1.ServicePort) (other mcsv1beta1.ServicePort, clash bool) {
	if other, clash := mcs.PortNamed(ports, port.Name); clash {
		return other, true
	}
	i := slices.IndexFunc(ports, func(p mcsv1beta1.ServicePort) bool { return p.Protocol == port.Protocol && p.Port == port.Port })
	if i < 0 {
		return mcsv1beta1.ServicePort{}, false
	}
	return ports[i], true
}

// commonFamilies returns the oldest export's families that all others have as well, or all families
// of the oldest if there is no common family. An exporter that names no family does not count.
func commonFamilies(exporters []Member) []corev1.IPFamily {
	exporters = slices.DeleteFunc(slices.Clone(exporters), func(m Member) bool { return len(m.Service.Families) == 0 })
	if len(exporters) == 0 {
		return nil
	}
	oldest := exporters[0].Service.Families
	common := slices.DeleteFunc(slices.Clone(oldest), func(f corev1.IPFamily) bool {
		return slices.ContainsFunc(exporters, func(m Member) bool { return !slices.Contains(m.Service.Families, f) })
	})
	if len(common) == 0 {
		return slices.Clone(oldest)
	}
	return common
}
