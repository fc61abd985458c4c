package desired

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// Desired is what belongs to one name as it should be. The zero value leaves everything as it is.
type Desired struct {
	// Withdrawn: nobody exports the name, so an import of ours goes, with its slices.
	Withdrawn bool
	// Import is the import as it should be; nil where it stays as it is.
	Import *mcsv1beta1.ServiceImport
	// ImportFirst: all else rests on the import, which the API server may refuse.
	ImportFirst bool
	// Service is the derived Service as it should be; nil where it stays as it is, or there is to be none.
	Service *corev1.Service
	// ServiceStatus is that Service with the user's addresses in its status; nil where that stays as it is.
	ServiceStatus *corev1.Service
	// Delete are Services of ours that have to go, sorted by name.
	Delete []*corev1.Service
	// Exclusive: nothing but the import's slices may belong to the derived Service.
	Exclusive bool
	// Slices are the import's.
	Slices Slices
	// Status is the part of the import's status that the clusterset gives; nil for none.
	Status *ImportStatus
	// Ready is the import's condition, once nothing is missing.
	Ready Ready
	// Notes are on what is left out, beside those of Ready.
	Notes []string
	// Events are told with the import's edit.
	Events []Event
	// YieldsIPs is true where ips are left to another writer for now.
	YieldsIPs bool
	// Retry is true where the world may change without any object telling us (a quota, an address range).
	Retry bool
	// Soon is true where the recorded addresses were refused and are to be asked for again.
	RetryAddress bool
	// Merged is what the exports of the name give together, and Held is true where it is not known of some cluster.
	Merged merge.Merged
	Held   bool
}

// Slices are those of ours that an import should have. The zero value leaves all as they are.
type Slices struct {
	// Service is the name of the Service that they belong to; empty for none.
	Service string
	// Home is this cluster's id; empty in no clusterset.
	Home string
	// Wanted have their final names and labels, sorted by name.
	Wanted []*discoveryv1.EndpointSlice
	// Awaited is the cluster whose slice is kept, whatever it holds, with the labels and the Service that it should have; empty for none.
	Awaited func(*discoveryv1.EndpointSlice) string
	// Complete: what is neither wanted nor awaited goes.
	Complete bool
}

// builder builds what is desired of a state.
type builder struct {
	observed.State
	members []merge.Member
	merged  merge.Merged
	missing []string // clusters, as in observed.Known
	// owned is true where the clusterset gives the import, and families those that it gives; none where that is not known.
	owned    bool
	families []corev1.IPFamily
	// led are the Services that the import's slices belong to.
	led []string
}

// Build is what should be, as far as it is known: of what is observed, of what is known of each cluster, and of what that gives together.
func Build(st observed.State, known observed.Known, m merge.Merged) Desired {
	b := builder{State: st, members: known.Members, merged: m, missing: known.Missing}
	if st.Import != nil {
		b.led = ledTo(st)
	}
	if st.Clusterset == nil {
		return ofImport(b)
	}
	nobody := len(m.Clusters)+len(known.Missing) == 0
	var d Desired
	switch {
	case nobody && (st.Import == nil || ownership.OfImport(st.Import)):
		d = Desired{Withdrawn: true} // C22, C36. The derived Service goes with its import, by garbage collection.
	case nobody:
		d = ofImport(b)
	case !st.Clusterset.Namespace, st.Import != nil && st.Import.DeletionTimestamp != nil:
	case st.Import == nil:
		d = createImport(b)
	case !ownership.OfImport(st.Import):
		d = syncUnmanaged(b)
	default:
		d = updateImport(b)
	}
	d.Merged, d.Held = m, len(known.Missing) > 0
	return d
}

// introduce makes the import. All else needs its UID.
func createImport(b builder) Desired {
	if b.ImportRefused != "" {
		return Desired{Retry: true, Ready: readyFor(ReasonImportRefused, "%s", b.ImportRefused)}
	}
	imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name}}
	b.shape(imp)
	return Desired{Import: imp}
}

// leave is for an import that others made: it gets what any import gets, and none of the clusterset's endpoints.
func syncUnmanaged(b builder) Desired {
	d := ofImport(b)
	if len(b.merged.Clusters) > 0 {
		d.Notes = []string{"what the clusterset exports under this name, as this import is not labelled " + mcs.LabelManagedBy + "=" + mcs.ControllerName}
	}
	return d
}

// updateImport is for an import of ours, its slices and all that belongs to it. What the clusterset gives is written to the import before
// anything follows from it: the server may refuse it, and then everything stays with what the import is.
func updateImport(b builder) Desired {
	original := b.Import
	known := len(b.missing) == 0 && b.ImportRefused == ""
	yields := known && b.takeShape()
	known = known && !yields
	status := sharedStatus(b)
	if known {
		b.families = b.merged.Families
	} else {
		b.merged = frozen(b.merged, original)
	}
	b.owned = true
	d := ofImport(b)
	if d.Import == nil && known {
		d.Import = b.Import
	}
	d.ImportFirst = known && !sameButRecord(original, b.Import)
	d.Slices = mirroredSlices(b)
	d.Status = status
	d.Notes = b.othersSlices()
	if yields {
		d.Notes = append(d.Notes, b.Contested.Note(contested.FieldImport))
	}
	d.Retry = d.Retry || b.ImportRefused != ""
	return d
}

// takeShape gives the import the shape that the clusterset gives it. It is true, and the import stays as it is, where another writer keeps
// setting that back.
func (b *builder) takeShape() (yields bool) {
	original := b.Import
	shaped := original.DeepCopy()
	b.shape(shaped)
	b.Contested.YieldMetadata(original, shaped)
	if b.Contested.HoldsShape(original, shaped) {
		return true
	}
	b.Import = shaped
	return false
}

// sameButRecord is true where two forms of an import differ in the record at most, from which nothing else follows.
func sameButRecord(a, b *mcsv1beta1.ServiceImport) bool {
	if equality.Semantic.DeepEqual(a, b) {
		return true
	}
	a = a.DeepCopy()
	annotate(a, mcs.AnnotationExports, b.Annotations[mcs.AnnotationExports])
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

// importStatus is the part of an import's status that the clusterset gives.
type ImportStatus struct {
	Clusters []string
	Slices   mcsv1beta1.EndpointSliceObjectsStatus
}

// sharedStatus names the exporting clusters (C28) and says whether their slices are there (C29).
func sharedStatus(b builder) *ImportStatus {
	s := &ImportStatus{Clusters: slices.Clone(b.merged.Clusters), Slices: mcsv1beta1.EndpointSliceObjectsAbsent}
	for _, cluster := range b.missing {
		if !slices.Contains(s.Clusters, cluster) {
			s.Clusters = append(s.Clusters, cluster)
		}
	}
	slices.Sort(s.Clusters)
	if len(b.Slices) > 0 {
		s.Slices = mcsv1beta1.EndpointSliceObjectsPresent
	}
	return s
}

// Write sets it on an import, as far as the CRD has it.
func (s *ImportStatus) Write(status *mcsv1beta1.ServiceImportStatus, crd observed.CRD) {
	if s == nil {
		return
	}
	status.Clusters = nil
	for _, cluster := range s.Clusters {
		status.Clusters = append(status.Clusters, mcsv1beta1.ClusterStatus{Cluster: cluster})
	}
	if crd.EndpointSliceObjects {
		status.EndpointSliceObjects = s.Slices
	}
}

// mirroredSlices are the slices of an import of ours. What a cluster gave that has not been heard yet stays.
func mirroredSlices(b builder) Slices {
	s := Slices{Service: b.sliceService(), Home: b.homeID(), Awaited: b.awaited, Complete: true}
	s.Wanted = Mirror(b.Clusterset.Home, types.NamespacedName{Namespace: b.Namespace, Name: b.Name}, b.merged, b.members, b.Clusterset.MaxEndpoints)
	for _, want := range s.Wanted {
		b.associate(want, s.Service)
	}
	return s
}

// keptAlone are the slices of an import of ours while this cluster is in no clusterset: what there is stays.
func keptAlone(b builder) Slices {
	return Slices{Service: b.sliceService(), Home: b.homeID(), Awaited: func(slice *discoveryv1.EndpointSlice) string {
		if !ownership.SliceIsOurs(slice, b.Import) {
			return ""
		}
		return slice.Labels[mcsv1beta1.LabelSourceCluster]
	}}
}

// othersSlices is a note on slices that bear the import's name and are not ours: nobody is led to their endpoints.
func (b builder) othersSlices() []string {
	var names []string
	for _, slice := range b.Slices {
		if !ownership.SliceIsOurs(slice, b.Import) {
			names = append(names, slice.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{"EndpointSlices of others, as this import's are " + mcs.ControllerName + "'s: " + brief.ClipTo(200, strings.Join(names, ", "))}
}

// awaited is the cluster that a slice came from, if it has not been heard yet, or if it is this one, whose Service is being replaced; else
// empty.
func (b builder) awaited(slice *discoveryv1.EndpointSlice) string {
	waiting := b.Clusterset.Silent
	if home := b.Clusterset.Home; slices.Contains(b.Clusterset.Vacant, home) {
		waiting = append(slices.Clone(waiting), home)
	}
	for _, cluster := range waiting {
		if ownership.SliceIsFrom(cluster, slice, b.Import) {
			return cluster
		}
	}
	return ""
}

// setImport is the import as edited, without what is left to another writer for now. nil and empty are the same: neither is written.
func (d *Desired) setImport(b builder, edited *mcsv1beta1.ServiceImport) {
	old := b.Import
	if !slices.Equal(old.Spec.IPs, edited.Spec.IPs) && b.Contested.HoldsIPs(edited.Spec.IPs) {
		edited.Spec.IPs, edited.Spec.IPFamilies = old.Spec.IPs, old.Spec.IPFamilies
		d.YieldsIPs = true
	}
	b.Contested.YieldMetadata(old, edited)
	d.Import = edited
}
