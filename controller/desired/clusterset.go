package desired

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// exporters are the members, or none where the name is no DNS label: no Service has such a name, and no DNS name leads to it. A peer
// that reports one could otherwise give its slices the names of another Service's (sliceStem).
func (b builder) exporters() []merge.Member {
	if len(validation.IsDNS1123Label(b.Name)) > 0 {
		return nil
	}
	return b.Clusterset.Members
}

// unheard are the clusters that the import has something of, and that have not been heard since the start. While there is one, the
// import's content stays as it is, and so do the import and its addresses (C24): what that cluster's export says is not known.
func (b builder) silentClusters() []string {
	if b.Import == nil || !ownership.OfImport(b.Import) {
		return nil
	}
	known := map[string]bool{}
	for cluster := range readRecord(b.Import) { // The status may be gone: a backup does not restore it.
		known[cluster] = true
	}
	for _, cluster := range b.Import.Status.Clusters {
		known[cluster.Cluster] = true
	}
	return slices.DeleteFunc(slices.Concat(b.Clusterset.Silent, b.Clusterset.Expired), func(cluster string) bool {
		from := func(slice *discoveryv1.EndpointSlice) bool { return ownership.SliceIsFrom(cluster, slice, b.Import) }
		return !known[cluster] && !slices.ContainsFunc(b.Slices, from)
	})
}
