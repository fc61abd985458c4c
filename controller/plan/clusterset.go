package plan

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Clusterset is what the clusters have to say of one name.
type Clusterset struct {
	// Home is this cluster's id.
	Home string
	// Members are the clusters that count, this one among them, in any order.
	Members []Member
	// Unheard are the peers that joined and have not been heard since this process' start, and whose time has not run out. They
	// count with what this cluster still holds of them: absent is not empty.
	Unheard []string
	// Expired are those whose time has run out: they count for the import, and no longer for its endpoints (C22, C39).
	Expired []string
	// Vacant are the clusters whose ServiceExport is there while their Service is not, or, in this cluster, has no slices yet, and was not so
	// long ago: it is being replaced. They count with what they had: absent is not empty.
	Vacant []string
	// Export is this cluster's ServiceExport, nil if there is none.
	Export *mcsv1beta1.ServiceExport
	// Namespace is true where this cluster has the namespace and it is not on its way out (C20, C21).
	Namespace bool
	// Most is how many endpoints a slice of ours holds.
	Most int
}

// exporters are the members, or none where the name is no DNS label: no Service has such a name, and no DNS name leads to it. A peer
// that reports one could otherwise give its slices the names of another Service's (sliceStem).
func (st State) exporters() []Member {
	if len(validation.IsDNS1123Label(st.Name)) > 0 {
		return nil
	}
	return st.Clusterset.Members
}

// unheard are the clusters that the import has something of, and that have not been heard since the start. While there is one, the
// import's content stays as it is, and so do the import and its addresses (C24): what that cluster's export says is not known.
func (st State) unheard() []string {
	if st.Import == nil || !ImportIsOurs(st.Import) {
		return nil
	}
	known := map[string]bool{}
	for cluster := range readRecord(st.Import) { // The status may be gone: a backup does not restore it.
		known[cluster] = true
	}
	for _, cluster := range st.Import.Status.Clusters {
		known[cluster.Cluster] = true
	}
	return slices.DeleteFunc(slices.Concat(st.Clusterset.Unheard, st.Clusterset.Expired), func(cluster string) bool {
		from := func(slice *discoveryv1.EndpointSlice) bool { return mirroredFrom(cluster, slice, st.Import) }
		return !known[cluster] && !slices.ContainsFunc(st.Slices, from)
	})
}
