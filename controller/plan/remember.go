package plan

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// maxRecord bounds the annotation. A cluster that does not fit is not recorded: while it is silent, the import stays as it is.
const maxRecord = 64 << 10

// recorded is one cluster's part of the record.
type recorded struct {
	// Home marks the cluster whose import this is.
	Home    bool `json:",omitempty"`
	Created metav1.Time
	// AllLabels and AllAnnotations are the digests in an Export, as hexadecimal text; empty for the zero value.
	AllLabels      string `json:",omitempty"`
	AllAnnotations string `json:",omitempty"`
	Terms          Terms
}

// record is the annotation's text for these members; empty where none exports.
func record(home string, members []Member) string {
	all, room := map[string]json.RawMessage{}, maxRecord
	for _, m := range slices.SortedFunc(slices.Values(members), byCluster) {
		if !m.Exports() {
			continue
		}
		text, _ := json.Marshal(recorded{ // Strings and numbers: no error.
			Home: m.Cluster == home, Created: m.Export.Created, AllLabels: m.Export.AllLabels.text(), AllAnnotations: m.Export.AllAnnotations.text(), Terms: *m.Terms,
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

func byCluster(a, b Member) int { return cmp.Compare(a.Cluster, b.Cluster) }

func (d Digest) text() string {
	if d == (Digest{}) {
		return ""
	}
	return hex.EncodeToString(d[:])
}

func digestOf(text string) (d Digest) {
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == len(d) {
		copy(d[:], raw)
	}
	return d
}

// readRecord is what an import's annotation holds. Garbage counts as no record.
func readRecord(imp *mcsv1beta1.ServiceImport) map[string]recorded {
	var all map[string]recorded
	if imp == nil || !ImportIsOurs(imp) || json.Unmarshal([]byte(imp.Annotations[AnnotationExports]), &all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(_ string, r recorded) bool { return r.Terms.External || r.Terms.Type == "" })
	return all
}

// Remembered are the other clusters that an import of ours has something of, by its record and its status. This cluster is not among them,
// also if it had another ID.
func Remembered(imp *mcsv1beta1.ServiceImport) []string {
	if !ImportIsOurs(imp) || imp.DeletionTimestamp != nil { // One that is being deleted is left alone anyway.
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
func (r recorded) member(cluster string, imp *mcsv1beta1.ServiceImport) Member {
	labels, annotations := exportedOn(imp)
	return Member{Cluster: cluster, Terms: &r.Terms, Export: &Export{
		Created: r.Created, Labels: labels, Annotations: annotations,
		AllLabels: digestOf(r.AllLabels), AllAnnotations: digestOf(r.AllAnnotations),
	}}
}

// completed are the members, with what is recorded of those that are silent or vacant; silent are the clusters that the import has
// something of and of which nothing is recorded.
func (b builder) completed() (members []Member, silent []string) {
	known := readRecord(b.Import)
	for _, m := range b.exporters() {
		members = append(members, b.filled(m, known))
	}
	for _, cluster := range b.unheard() {
		if r, ok := known[cluster]; ok {
			members = append(members, r.member(cluster, b.Import))
		} else {
			silent = append(silent, cluster)
		}
	}
	return members, silent
}

// filled is a member whose Service is gone for a moment, with the Service that it had. The slices of this cluster's own Service go with
// it: those that were made of them are kept (awaited).
func (b builder) filled(m Member, known map[string]recorded) Member {
	if !slices.Contains(b.Clusterset.Vacant, m.Cluster) {
		return m
	}
	if r, ok := known[m.Cluster]; ok && m.Terms == nil {
		m.Terms = &r.Terms
	}
	if m.Cluster == b.Clusterset.Home {
		m.Slices = nil
	}
	return m
}

// sameButRecord is true where two forms of an import differ in the record only, from which nothing else follows.
func sameButRecord(a, b *mcsv1beta1.ServiceImport) bool {
	a = a.DeepCopy()
	annotate(a, AnnotationExports, b.Annotations[AnnotationExports])
	return equality.Semantic.DeepEqual(a, b)
}

// frozen is the merge that an import shows which is not written at present: its slices follow from it, as long as it stays.
func frozen(m Merged, imp *mcsv1beta1.ServiceImport) Merged {
	m.Type, m.Ports, m.Distribution, m.Clusters = imp.Spec.Type, imp.Spec.Ports, "", nil
	if imp.Spec.TrafficDistribution != nil {
		m.Distribution = *imp.Spec.TrafficDistribution
	}
	for _, cluster := range imp.Status.Clusters {
		m.Clusters = append(m.Clusters, cluster.Cluster)
	}
	return m
}
