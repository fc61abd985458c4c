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

// maxRecord bounds the annotation. A cluster that does not fit is not recorded: while it is silent, the import stays as it is.
const maxRecord = 64 << 10

// recorded is one cluster's part of the record.
type recorded struct {
	// Home marks the cluster whose import this is.
	Home    bool `json:",omitempty"`
	Created metav1.Time
	// AllLabels and AllAnnotations are the digests in an Export.
	AllLabels      merge.Digest      `json:",omitzero"`
	AllAnnotations merge.Digest      `json:",omitzero"`
	Spec           merge.ServiceSpec `json:"Terms"` // as imports of earlier releases have it
}

// record is the annotation's text for these members; empty where none exports.
func record(home string, members []merge.Member) string {
	all, room := map[string]json.RawMessage{}, maxRecord
	for _, m := range slices.SortedFunc(slices.Values(members), byCluster) {
		if !m.Exports() {
			continue
		}
		text, _ := json.Marshal(recorded{ // Strings and numbers: no error.
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

// readRecord is what an import's annotation holds. Garbage counts as no record.
func readRecord(imp *mcsv1beta1.ServiceImport) map[string]recorded {
	var all map[string]recorded
	if imp == nil || !ownership.OfImport(imp) || json.Unmarshal([]byte(imp.Annotations[mcs.AnnotationExports]), &all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(_ string, r recorded) bool { return r.Spec.External || r.Spec.Type == "" })
	return all
}

// RecordedClusters are the other clusters that an import of ours has something of, by its record and its status. This cluster is not among them,
// also if it had another ID.
func RecordedClusters(imp *mcsv1beta1.ServiceImport) []string {
	if !ownership.OfImport(imp) || imp.DeletionTimestamp != nil { // One that is being deleted is left alone anyway.
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

// maxRemembered is of one import, so that a large one costs little. No clusterset is as large.
const maxRemembered = 1000

// member is the cluster as it was recorded. If its export was the oldest, its labels and annotations are those that the import has.
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

// exportedOn are the labels and annotations of an import that came from an export.
func exportedOn(imp *mcsv1beta1.ServiceImport) (labels, annotations map[string]string) {
	var keys ExportedKeys
	_ = json.Unmarshal([]byte(imp.Annotations[mcs.AnnotationExported]), &keys)
	return mcs.Only(imp.Labels, keys.Labels...), mcs.Only(imp.Annotations, keys.Annotations...)
}
