package observed

import (
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// Known is what is known of a name in each cluster: what the clusters report now, and what is
// recorded of silent clusters.
type Known struct {
	// Members take part in the merge.
	Members []merge.Member
	// Missing are the silent clusters that the import has something of, but of which nothing is
	// recorded. Their exports are not known. While there is such a cluster, the import, its content
	// and its addresses stay unchanged (C24).
	Missing []string
	// Kept are the clusters whose endpoints stay although the clusters are assumed to be dead, because
	// no other cluster has a ready endpoint. They are sorted.
	Kept []string
	// Record is the text of mcs.AnnotationExports for the members. It is empty if no member
	// exports.
	Record string
}

// Recall completes what the clusters report with what the import has recorded.
func Recall(st State) Known {
	if st.Clusterset == nil {
		return Known{}
	}
	var known Known
	records := st.records()
	for _, m := range exporters(st) {
		known.Members = append(known.Members, withRecord(st, m, records))
	}
	for _, cluster := range silentClusters(st, records) {
		if r, ok := records[cluster]; ok {
			known.Members = append(known.Members, r.member(cluster, st.Import))
		} else {
			known.Missing = append(known.Missing, cluster)
		}
	}
	known.Kept = keepLast(st, known.Members)
	known.Record = record(st.Clusterset.Home, known.Members, preferred(st, known.Members))
	return known
}

// records returns what the import has recorded, if a cluster is silent or has no Service at present.
// Otherwise nothing depends on it.
func (st State) records() map[string]recorded {
	if len(st.Clusterset.Silent)+len(st.Clusterset.SilentExpired)+len(st.Clusterset.Vacant) == 0 {
		return nil
	}
	return readRecord(st.Import)
}

// preferred reports whether an export or the import chooses between clusters.
func preferred(st State, members []merge.Member) bool {
	return st.Import != nil && preference.Read(st.Import.Annotations).Clusters != "" ||
		slices.ContainsFunc(members, func(m merge.Member) bool { return m.Exports() && m.Export.Preference.Clusters != "" })
}

// exporters returns the members that export the name to this cluster. It returns none if the name is
// not a DNS label: no Service has such a name, and DNS cannot resolve it. A peer that reports such a name could otherwise give its slices
// the names of another Service's slices (ownership.SliceStem).
func exporters(st State) []merge.Member {
	if len(validation.IsDNS1123Label(st.Name)) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(st.Clusterset.Members), func(m merge.Member) bool {
		return m.Cluster != st.Clusterset.Home && m.Export != nil && !m.Export.Consumers.Have(st.Clusterset.Home)
	})
}

// withRecord returns a member, with its former export and Service while they are being replaced. The
// slices of this cluster's Service disappear with the Service. The imported slices made from them
// are kept.
func withRecord(st State, m merge.Member, records map[string]recorded) merge.Member {
	if !slices.Contains(st.Clusterset.Vacant, m.Cluster) {
		return m
	}
	if r, ok := records[m.Cluster]; ok {
		if m.Service == nil {
			m.Service = &r.Spec
		}
		if m.Export == nil {
			was := r.member(m.Cluster, st.Import)
			m.Export, m.Properties = was.Export, was.Properties
		}
	}
	if m.Cluster == st.Clusterset.Home {
		m.Slices = nil
	}
	return m
}

// silentClusters returns the silent clusters that an import of the controller has something of: in
// its record, its status (which a backup does not restore) or its slices.
func silentClusters(st State, records map[string]recorded) []string {
	if st.Import == nil || !ownership.OfImport(st.Import) {
		return nil
	}
	known := map[string]bool{}
	for cluster := range records {
		known[cluster] = true
	}
	for _, cluster := range st.Import.Status.Clusters {
		known[cluster.Cluster] = true
	}
	return slices.DeleteFunc(slices.Concat(st.Clusterset.Silent, st.Clusterset.SilentExpired), func(cluster string) bool {
		from := func(slice *discoveryv1.EndpointSlice) bool { return ownership.SliceIsFrom(cluster, slice, st.Import) }
		return !known[cluster] && !slices.ContainsFunc(st.Slices, from)
	})
}

// keepLast decides about the endpoints of clusters whose death is only assumed. They are removed if
// any other cluster has a ready endpoint in each of their address families. Otherwise they stay: if
// the guess is wrong they still serve, and if it is right nothing is lost. It returns the clusters
// whose endpoints stay.
func keepLast(st State, members []merge.Member) (kept []string) {
	assumed := func(m merge.Member) bool { return m.Assumed }
	if len(st.Clusterset.SilentAssumed) == 0 && !slices.ContainsFunc(members, assumed) {
		return nil
	}
	last := needed(st, members)
	for i := range members {
		switch {
		case !members[i].Assumed:
		case !last:
			members[i].Slices = nil
		case members[i].Exports() && len(readyFamilies(st, members[i])) > 0:
			kept = append(kept, members[i].Cluster)
		}
	}
	if !last {
		return nil
	}
	for _, cluster := range st.Clusterset.SilentAssumed {
		if len(st.existing(cluster)) > 0 {
			kept = append(kept, cluster)
		}
	}
	slices.Sort(kept)
	return kept
}

// needed reports whether the clusters that are assumed to be dead have endpoints in an address family
// in which no other cluster has a ready one.
func needed(st State, members []merge.Member) bool {
	doubtful, sure := st.existing(st.Clusterset.SilentAssumed...), st.existing(slices.Concat(st.Clusterset.Silent, st.Clusterset.Vacant)...)
	for _, m := range members {
		switch {
		case m.Assumed && m.Exports():
			maps.Copy(doubtful, readyFamilies(st, m))
		case m.Exports():
			maps.Copy(sure, readyFamilies(st, m))
		}
	}
	maps.DeleteFunc(doubtful, func(family discoveryv1.AddressType, _ bool) bool { return sure[family] })
	return len(sure) == 0 || len(doubtful) > 0
}

// existing returns the address families in which existing slices of clusters have a ready endpoint.
func (st State) existing(clusters ...string) map[discoveryv1.AddressType]bool {
	return digest.ReadyFamilies(slices.DeleteFunc(slices.Clone(st.Slices), func(slice *discoveryv1.EndpointSlice) bool {
		return st.Import == nil || !slices.ContainsFunc(clusters, func(cluster string) bool { return ownership.SliceIsFrom(cluster, slice, st.Import) })
	}))
}

// readyFamilies returns the address families in which slices of a cluster have a ready endpoint that traffic can reach.
func readyFamilies(st State, m merge.Member) map[discoveryv1.AddressType]bool {
	families := map[discoveryv1.AddressType]bool{}
	for _, slice := range m.Slices {
		if preference.Ready(slice) > 0 && leads(st.Clusterset.Home, m, slice) {
			families[slice.AddressType] = true
		}
	}
	return families
}

// leads reports whether a port of the Service leads to the endpoints of a slice. Peers have left out other ports.
func leads(home string, m merge.Member, slice *discoveryv1.EndpointSlice) bool {
	return m.Service.Type == mcsv1beta1.Headless || slices.ContainsFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
		return m.Cluster != home || slices.ContainsFunc(m.Service.Ports, func(of mcsv1beta1.ServicePort) bool {
			return p.Name == nil && of.Name == "" || p.Name != nil && *p.Name == of.Name
		})
	})
}
