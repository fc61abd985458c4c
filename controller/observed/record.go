package observed

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
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
	AllLabels      merge.Digest      `json:",omitzero"`
	AllAnnotations merge.Digest      `json:",omitzero"`
	Spec           merge.ServiceSpec `json:"Terms"` // the name in the imports of earlier releases
}

// record returns the annotation's text for these members. It is empty if no member exports.
func record(home string, members []merge.Member) string {
	all, room := map[string]json.RawMessage{}, maxRecord
	for _, m := range slices.SortedFunc(slices.Values(members), byCluster) {
		if !m.Exports() {
			continue
		}
		text, _ := json.Marshal(recorded{ // Strings and numbers always marshal.
			Home: m.Cluster == home, Created: m.Export.Created, AllLabels: m.Export.AllLabels, AllAnnotations: m.Export.AllAnnotations, Spec: *m.Service,
		})
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
		AllLabels: r.AllLabels, AllAnnotations: r.AllAnnotations,
	}}
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
