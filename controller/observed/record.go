package observed

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// maxRecord limits the annotation's size. A cluster that does not fit is not recorded: while that
// cluster is silent, the import stays unchanged.
const maxRecord = 64 << 10

// recorded is one cluster's part of the record.
type recorded struct {
	// Home marks the cluster that has the import.
	Home    bool `json:",omitempty"`
	Created metav1.Time
	// AllLabels and AllAnnotations are the digests from an Export.
	AllLabels      merge.Digest `json:",omitzero"`
	AllAnnotations merge.Digest `json:",omitzero"`
	// Preference are the export's annotations, and Properties the cluster's properties if a
	// preference can depend on them.
	Preference preference.Texts  `json:",omitzero"`
	Properties map[string]string `json:",omitempty"`
	NativeName bool              `json:",omitempty"`
	Probe      bool              `json:",omitempty"`
	Spec       merge.ServiceSpec
}

// record returns the annotation's text for these members. It is empty if no member exports. The
// properties of clusters are recorded only for an import with a preference, so that other imports
// are not written when a property changes.
func record(home string, members []merge.Member, preferred bool) string {
	all, room := map[string]json.RawMessage{}, maxRecord
	for _, m := range slices.SortedFunc(slices.Values(members), byCluster) {
		if !m.Exports() {
			continue
		}
		r := recorded{
			Home: m.Cluster == home, Created: m.Export.Created, AllLabels: m.Export.AllLabels, AllAnnotations: m.Export.AllAnnotations, Spec: *m.Service,
			Preference: m.Export.Preference, NativeName: m.Export.NativeName, Probe: m.Export.Probe,
		}
		if preferred {
			r.Properties = m.Properties
		}
		text, _ := json.Marshal(r) // Strings and numbers always marshal.
		if size := len(m.Cluster) + len(text); size <= room {
			room -= size
			all[m.Cluster] = text
		}
	}
	if len(all) == 0 {
		return ""
	}
	text, _ := json.Marshal(all)
	return string(text)
}

func byCluster(a, b merge.Member) int { return cmp.Compare(a.Cluster, b.Cluster) }

// readRecord returns the content of an import's annotation. It ignores an invalid record.
func readRecord(imp *mcsv1beta1.ServiceImport) map[string]recorded {
	var all map[string]recorded
	if imp == nil || !ownership.OfImport(imp) || json.Unmarshal([]byte(imp.Annotations[mcs.AnnotationExports]), &all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(_ string, r recorded) bool { return r.Spec.External || r.Spec.Type == "" })
	return all
}

// RecordedClusters returns the other clusters that an import of the controller has something of,
// from its record and its status. It leaves out this cluster, even if it had another ID.
func RecordedClusters(imp *mcsv1beta1.ServiceImport) []string {
	// An import that is being deleted is not changed anyway.
	if !ownership.OfImport(imp) || imp.DeletionTimestamp != nil {
		return nil
	}
	known, all := readRecord(imp), map[string]bool{}
	for cluster := range known {
		all[cluster] = true
	}
	for _, status := range imp.Status.Clusters {
		all[status.Cluster] = true
	}
	maps.DeleteFunc(all, func(cluster string, _ bool) bool { return known[cluster].Home })
	ids := slices.Sorted(maps.Keys(all))
	return ids[:min(len(ids), maxRemembered)]
}

// maxRemembered limits the clusters of one import, so that a large import costs little. It is
// larger than any clusterset.
const maxRemembered = 1000

// member returns the cluster as it was recorded. If its export was the oldest, its labels and
// annotations are the import's.
func (r recorded) member(cluster string, imp *mcsv1beta1.ServiceImport) merge.Member {
	labels, annotations := exportedOn(imp)
	return merge.Member{Cluster: cluster, Service: &r.Spec, Export: &merge.Export{
		Created: r.Created, Labels: labels, Annotations: annotations,
		AllLabels: r.AllLabels, AllAnnotations: r.AllAnnotations, Preference: r.Preference, NativeName: r.NativeName, Probe: r.Probe,
	}, Properties: r.Properties}
}

// ExportedKeys is the content of AnnotationExported.
type ExportedKeys struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// exportedOn returns the labels and annotations of an import that came from an export.
func exportedOn(imp *mcsv1beta1.ServiceImport) (labels, annotations map[string]string) {
	var keys ExportedKeys
	_ = json.Unmarshal([]byte(imp.Annotations[mcs.AnnotationExported]), &keys)
	return mcs.Only(imp.Labels, keys.Labels...), mcs.Only(imp.Annotations, keys.Annotations...)
}
