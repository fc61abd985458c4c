package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/ownership"
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

// Plan plans what is missing for one name: the import that the clusterset gives, then everything that belongs to an import.
func Plan(st State) Changes {
	if st.Clusterset == nil {
		return Import(st)
	}
	members, held := st.completed()
	m := Merge(members)
	var c Changes
	switch {
	case len(m.Clusters)+len(held) == 0:
		c = withdraw(st)
	case !st.Clusterset.Namespace, st.Import != nil && st.Import.DeletionTimestamp != nil:
	case st.Import == nil:
		c = introduce(st, members, m)
	case !ImportIsOurs(st.Import):
		c = leave(st, m)
	default:
		c = maintain(st, members, m, held)
	}
	return settleExport(st, m, len(held) > 0, c)
}

// exporters are the members, or none where the name is no DNS label: no Service has such a name, and no DNS name leads to it. A peer
// that reports one could otherwise give its slices the names of another Service's (sliceStem).
func (st State) exporters() []Member {
	if len(validation.IsDNS1123Label(st.Name)) > 0 {
		return nil
	}
	return st.Clusterset.Members
}

// ImportIsOurs is true for an import that this controller made, or that a user handed over by the label. All others are their
// makers': a user's, Karmada's, Cilium's.
func ImportIsOurs(imp *mcsv1beta1.ServiceImport) bool { return ownership.OfImport(imp) }

// SliceIsOurs is true for what Mirror gave here. One whose mark was edited away is known by its owner, the import, and by its name; with
// nil, it is not.
func SliceIsOurs(slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport) bool {
	return ownership.OfSlice(slice) || imp != nil && mirroredName(slice.Name, imp.Name) && ownedByImport(slice, imp)
}

func ownedByImport(slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport) bool {
	return slices.ContainsFunc(slice.OwnerReferences, func(ref metav1.OwnerReference) bool { return isImport(ref) && ref.Name == imp.Name })
}

// mirroredName is true for a name that Mirror gives to a slice of an import: nobody else's has dots and a hash like that.
func mirroredName(slice, imp string) bool {
	at := strings.LastIndex(slice, "-")
	return strings.HasPrefix(slice, imp+".") && at > 0 && isHash(slice[at+1:])
}

// mirroredFrom is true for a slice that is named and owned as what Mirror gives of a cluster. Labels are quickly set by others, and
// quickly edited away.
func mirroredFrom(cluster string, slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport) bool {
	stem := sliceStem(imp.Name, cluster, slice.AddressType)
	return strings.HasPrefix(slice.Name, stem) && isHash(slice.Name[len(stem):]) && ownedByImport(slice, imp)
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

// withdraw takes back what nobody exports any more (C22, C36). The derived Service goes with its import, by garbage collection.
func withdraw(st State) Changes {
	var c Changes
	if st.Import != nil && !ImportIsOurs(st.Import) {
		return leave(st, Merged{})
	}
	if st.Import != nil && st.Import.DeletionTimestamp == nil {
		c.DeleteImport = st.Import
	}
	c.DeleteSlices = ourSlices(st)
	return c
}

// introduce makes the import. All else needs its UID.
func introduce(st State, members []Member, m Merged) Changes {
	imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: st.Namespace, Name: st.Name}}
	st.shape(imp, members, m)
	if st.ImportRefused != "" {
		return Changes{Retry: true, Ready: is(ReasonImportRefused, "%s", st.ImportRefused).condition(st, metav1.Condition{})}
	}
	return Changes{CreateImport: imp}
}

// leave is for an import that others made: it gets what any import gets, and none of the clusterset's endpoints.
func leave(st State, m Merged) Changes {
	if len(m.Clusters) > 0 {
		st.notes = []string{"what the clusterset exports under this name, as this import is not labelled " + LabelManagedBy + "=" + Manager}
	}
	return Import(st)
}

// maintain holds an import of ours, its slices and all that belongs to it in line. What the clusterset gives is written to the import
// before anything follows from it: the server may refuse it, and then everything stays with what the import is.
func maintain(st State, members []Member, m Merged, held []string) Changes {
	original := st.Import
	given := len(held) == 0 && st.ImportRefused == ""
	if given {
		st.Import = original.DeepCopy()
		st.shape(st.Import, members, m)
		st.Contested.yieldMetadata(original, st.Import)
		st.families = m.Families
		if st.Contested.holds(FieldImport, shapeOf(st.Import)) && text(shapeOf(original)) != text(shapeOf(st.Import)) {
			given, st.Import = false, original
		}
	}
	contested := !given && len(held) == 0 && st.ImportRefused == ""
	st.shared = sharedStatus(st, m, held)
	st.led = ledTo(st)
	if !given {
		m = frozen(m, original)
	}
	mirrored := mirror(st, members, m)
	st.notes = slices.Concat(mirrored.notes, st.othersSlices())
	if contested {
		st.notes = append(st.notes, st.Contested.note(FieldImport))
	}
	c := Import(st)
	if given && !equality.Semantic.DeepEqual(original, st.Import) {
		edited := st.Import
		if c.Import != nil { // The addresses go with the type (C25).
			edited = c.Import.New
		}
		c.Import = &Edit[*mcsv1beta1.ServiceImport]{original, edited}
		if !sameButRecord(original, st.Import) {
			return Changes{Import: c.Import}
		}
	}
	c.Heal = mirrored.leaked()
	c.Retry = c.Retry || st.ImportRefused != ""
	return mirrored.with(c)
}

// with adds the changes of slices to those of the import and its Service.
func (s *sliceSync) with(c Changes) Changes {
	if c.Service != nil && len(s.changes.CreateSlices)+len(s.changes.UpdateSlices) > 0 && renamesUnnamed(c.Service) {
		c.Service = nil // First the slices get the port's new name, then the Service: its traffic never stops (C12).
	}
	c.CreateSlices, c.UpdateSlices, c.DeleteSlices = s.changes.CreateSlices, s.changes.UpdateSlices, s.changes.DeleteSlices
	c.MoveSlices, c.Slices = s.changes.MoveSlices, s.changes.Slices
	c.Retry = c.Retry || len(s.notes) > 0
	status := c.ImportStatus
	c.ImportStatus = nil
	if c.Ready.Type != "" && c.writes() > 0 { // A condition reports what is, so it waits for the slices.
		c.Events, c.Ready = nil, metav1.Condition{}
	} else {
		c.ImportStatus = status
	}
	return c
}

// shape leaves out what the CRD would prune: it would be written for ever.
func (st State) shape(imp *mcsv1beta1.ServiceImport, members []Member, m Merged) {
	m.Shape(imp)
	annotate(imp, AnnotationExports, record(st.Clusterset.Home, members))
	if !st.CRD.Policies {
		imp.Spec.InternalTrafficPolicy, imp.Spec.TrafficDistribution = nil, nil
	}
}

// importStatus is the part of an import's status that the clusterset gives.
type importStatus struct {
	clusters []string
	slices   mcsv1beta1.EndpointSliceObjectsStatus
}

// sharedStatus names the exporting clusters (C28) and says whether their slices are there (C29).
func sharedStatus(st State, m Merged, held []string) *importStatus {
	s := &importStatus{clusters: slices.Clone(m.Clusters), slices: mcsv1beta1.EndpointSliceObjectsAbsent}
	for _, cluster := range held {
		if !slices.Contains(s.clusters, cluster) {
			s.clusters = append(s.clusters, cluster)
		}
	}
	slices.Sort(s.clusters)
	if len(st.Slices) > 0 {
		s.slices = mcsv1beta1.EndpointSliceObjectsPresent
	}
	return s
}

func (s *importStatus) write(status *mcsv1beta1.ServiceImportStatus, crd CRD) {
	if s == nil {
		return
	}
	status.Clusters = nil
	for _, cluster := range s.clusters {
		status.Clusters = append(status.Clusters, mcsv1beta1.ClusterStatus{Cluster: cluster})
	}
	if crd.EndpointSliceObjects {
		status.EndpointSliceObjects = s.slices
	}
}

// mirror plans the slices of an import of ours: those that are missing, those that differ, and those that have no source any more.
// What a cluster gave that has not been heard yet stays.
func mirror(st State, members []Member, m Merged) *sliceSync {
	s := newSliceSync(st)
	for _, want := range Mirror(st.Clusterset.Home, types.NamespacedName{Namespace: st.Namespace, Name: st.Name}, m, members, st.Clusterset.Most) {
		st.associate(want, s.service)
		s.add(want)
	}
	s.deleteRest(func(slice *discoveryv1.EndpointSlice) bool { return st.awaited(slice) != "" })
	s.keepAwaited(st.awaited)
	return s
}

// keptAlone plans the slices of an import of ours while this cluster is in no clusterset: what there is stays.
func keptAlone(st State) *sliceSync {
	s := newSliceSync(st)
	s.keepAwaited(func(slice *discoveryv1.EndpointSlice) string {
		if !SliceIsOurs(slice, st.Import) {
			return ""
		}
		return slice.Labels[mcsv1beta1.LabelSourceCluster]
	})
	return s
}

func leftOut(slice *discoveryv1.EndpointSlice, reason string) string {
	return fmt.Sprintf("endpoints of %s: %s", slice.Labels[mcsv1beta1.LabelSourceCluster], clipTo(200, reason))
}

// othersSlices is a note on slices that bear the import's name and are not ours: nobody is led to their endpoints.
func (st State) othersSlices() []string {
	var names []string
	for _, slice := range st.Slices {
		if !SliceIsOurs(slice, st.Import) {
			names = append(names, slice.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{"EndpointSlices of others, as this import's are " + Manager + "'s: " + clipTo(200, strings.Join(names, ", "))}
}

// ownSlice lets the slice go with its import (C36).
func ownSlice(slice *discoveryv1.EndpointSlice, st State) {
	slice.OwnerReferences = ownedBy(slice.OwnerReferences, st.Import, st.CRD)
}

// ourSlices are those of ours, but for those that are about to be gone. One that is being deleted and has a finalizer is not: it would
// stay, with whatever endpoints somebody gives it.
func ourSlices(st State) []*discoveryv1.EndpointSlice {
	var ours []*discoveryv1.EndpointSlice
	for _, slice := range st.Slices {
		if SliceIsOurs(slice, st.Import) && (slice.DeletionTimestamp == nil || len(slice.Finalizers) > 0) {
			ours = append(ours, slice)
		}
	}
	slices.SortFunc(ours, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return ours
}

// awaited is the cluster that a slice came from, if it has not been heard yet, or if it is this one, whose Service is being replaced; else
// empty.
func (st State) awaited(slice *discoveryv1.EndpointSlice) string {
	waiting := st.Clusterset.Unheard
	if home := st.Clusterset.Home; slices.Contains(st.Clusterset.Vacant, home) {
		waiting = append(slices.Clone(waiting), home)
	}
	for _, cluster := range waiting {
		if mirroredFrom(cluster, slice, st.Import) {
			return cluster
		}
	}
	return ""
}

// mark plans the labels that a slice of a cluster should have and somebody has edited.
func (s *sliceSync) mark(slice *discoveryv1.EndpointSlice, cluster string) {
	edited := slice.DeepCopy()
	edited.Labels[discoveryv1.LabelManagedBy], edited.Labels[mcsv1beta1.LabelSourceCluster] = Manager, cluster
	if s.service != "" {
		edited.Labels[discoveryv1.LabelServiceName] = s.service
	}
	for _, key := range proxyLabels {
		delete(edited.Labels, key)
	}
	if !maps.Equal(slice.Labels, edited.Labels) {
		s.changes.Slices = append(s.changes.Slices, Edit[*discoveryv1.EndpointSlice]{slice, edited})
	}
}
