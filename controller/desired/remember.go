package desired

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
)

// completed are the members, with what is recorded of those that are silent or vacant; silent are the clusters that the import has
// something of and of which nothing is recorded.
func (b builder) membersWithRecords() (members []merge.Member, silent []string) {
	known := readRecord(b.Import)
	for _, m := range b.exporters() {
		members = append(members, b.withRecord(m, known))
	}
	for _, cluster := range b.silentClusters() {
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
func (b builder) withRecord(m merge.Member, known map[string]recorded) merge.Member {
	if !slices.Contains(b.Clusterset.Vacant, m.Cluster) {
		return m
	}
	if r, ok := known[m.Cluster]; ok && m.Service == nil {
		m.Service = &r.Terms
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
func frozen(m merge.Merged, imp *mcsv1beta1.ServiceImport) merge.Merged {
	m.Type, m.Ports, m.Distribution, m.Clusters = imp.Spec.Type, imp.Spec.Ports, "", nil
	if imp.Spec.TrafficDistribution != nil {
		m.Distribution = *imp.Spec.TrafficDistribution
	}
	for _, cluster := range imp.Status.Clusters {
		m.Clusters = append(m.Clusters, cluster.Cluster)
	}
	return m
}
