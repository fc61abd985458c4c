package desired

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// builder builds what is desired of a state.
type builder struct {
	observed.State
	members []merge.Member
	record  string // of them, for the import
	merged  merge.Merged
	missing []string // clusters, as in observed.Known
	// owned is true where the clusterset gives the import, and families those that it gives; none where that is not known.
	owned    bool
	families []corev1.IPFamily
	// serving are the Services that the import's slices belong to.
	serving []string
}

// Build is what should be, as far as it is known: of what is observed, of what is known of each cluster, and of what that gives together.
func Build(st observed.State, known observed.Known, m merge.Merged) Desired {
	b := builder{State: st, members: known.Members, record: known.Record, merged: m, missing: known.Missing}
	if st.Import != nil {
		b.serving = servicesOf(st)
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

// createImport makes the import. All else needs its UID.
func createImport(b builder) Desired {
	if b.ImportRefused != "" {
		return Desired{Retry: true, Ready: readyFor(ReasonImportRefused, "%s", b.ImportRefused)}
	}
	imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name}}
	b.shape(imp)
	return Desired{Import: imp}
}

// syncUnmanaged is for an import that others made: it gets what any import gets, and none of the clusterset's endpoints.
func syncUnmanaged(b builder) Desired {
	d := ofImport(b)
	if len(b.merged.Clusters) > 0 {
		d.Notes = append(d.Notes, "what the clusterset exports under this name, as this import is not labelled "+mcs.LabelManagedBy+"="+mcs.ControllerName)
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
	d.Slices = ownSlices(b)
	d.Status = status
	d.Notes = append(d.Notes, b.othersSlices()...)
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
