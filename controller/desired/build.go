package desired

import (
	"encoding/json"
	"maps"
	"slices"

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

// builder builds the desired objects of a state.
type builder struct {
	observed.State
	members []merge.Member
	record  string // the members' record for the import
	merged  merge.Merged
	missing []string // clusters, as in observed.Known
	kept    []string // clusters, as in observed.Known
	// owned reports whether the clusterset decides the content of the import. families are the
	// families that the clusterset gives, or none if they are not known.
	owned    bool
	families []corev1.IPFamily
	// serving are the Services that the import's slices belong to.
	serving []string
	// refused is what the API server has refused of the Service that is built.
	refused []observed.Refusal
}

// Build returns the desired objects, as far as they are known, from the observed state, from what
// is known of each cluster, and from the merge of all exports.
func Build(st observed.State, known observed.Known, m merge.Merged) Desired {
	b := builder{State: st, members: known.Members, record: known.Record, merged: m, missing: known.Missing, kept: known.Kept}
	if st.Import != nil {
		b.serving, b.refused = servicesOf(st), st.Refused.Service(ownership.DerivedName(st.Import))
	}
	if st.Clusterset == nil {
		d := ofImport(b)
		d.Notes = append(d.Notes, b.unusedAnnotations()...)
		return d
	}
	nobody := len(m.Clusters)+len(known.Missing) == 0
	var d Desired
	switch {
	case nobody && (st.Import == nil || ownership.OfImport(st.Import)):
		// C22, C36. The garbage collector deletes the derived Service with its import.
		d = Desired{Withdrawn: true, Delete: b.orphans()}
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
	if b.nativeEnds(d) {
		d.Native = b.removeNative()
	}
	return d
}

// orphans returns the derived Services that have lost their owner. A peer that is silent can still export the name, with the address that
// such a Service has.
func (b builder) orphans() []*corev1.Service {
	if len(b.Clusterset.Silent)+len(b.Clusterset.SilentExpired) > 0 {
		return nil
	}
	return notDeleted(slices.DeleteFunc(slices.Clone(b.Owned), func(svc *corev1.Service) bool { return !ownership.Orphaned(svc) }))
}

// createImport returns the import to create. Everything else needs its UID.
func createImport(b builder) Desired {
	if fault := b.Refused.Import(); fault != "" {
		return Desired{Ready: readyFor(ReasonImportRefused, "%s", fault)}
	}
	imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name}}
	b.shape(imp)
	if b.Former != "" { // the process can end before the Service has the address again
		annotate(imp, mcs.AnnotationClusterIPs, b.Former)
	}
	return Desired{Import: imp}
}

// syncUnmanaged handles an import that the controller does not own. The import gets what any import
// gets, and no endpoints of the clusterset.
func syncUnmanaged(b builder) Desired {
	d := ofImport(b)
	d.publish(b)
	d.Notes = append(d.Notes, b.unusedAnnotations()...)
	if len(b.merged.Clusters) > 0 {
		d.Notes = append(d.Notes, "the endpoints that the clusterset exports under this name, because the import does not have the label "+mcs.LabelManagedBy+"="+mcs.ControllerName)
	}
	return d
}

// updateImport handles an import that the controller owns, its slices and everything that belongs
// to it. It first writes what the clusterset gives to the import. The API server can refuse that
// write, and then everything else continues to follow from the unchanged import.
func updateImport(b builder) Desired {
	original := b.Import
	known := len(b.missing) == 0 && b.Refused.Import() == ""
	var held []contested.Field
	if known {
		held = b.takeShape()
	}
	notes := b.heldNotes(held)
	status := sharedStatus(b)
	if known && len(notes) == 0 {
		b.families = b.merged.Families
	} else {
		b.merged = frozen(b.merged, b.Import)
	}
	b.owned = true
	d := ofImport(b)
	if d.Import == nil && known {
		d.Import = b.Import
	}
	d.ImportFirst = known && !sameButRecord(original, b.Import)
	d.Checked = b.check()
	d.Slices = ownSlices(b)
	d.publish(b)
	d.Preferred = b.prefer(&d.Slices)
	d.Status, d.Kept = status, b.kept
	d.Notes = slices.Concat(d.Notes, b.othersSlices(), b.malformedProbe(), notes)
	d.Native = b.native()
	return d
}

// takeShape changes the import to the shape that the clusterset gives it, except the fields that it returns:
// they are left to another writer at present.
func (b *builder) takeShape() (held []contested.Field) {
	shaped := b.Import.DeepCopy()
	b.shape(shaped)
	b.Import, held = contested.Without(b.Contested, b.Import, shaped)
	return held
}

// sameButRecord reports whether two versions of an import are equal apart from the records. Nothing
// else follows from them.
func sameButRecord(a, b *mcsv1beta1.ServiceImport) bool {
	if equality.Semantic.DeepEqual(a, b) {
		return true
	}
	a = a.DeepCopy()
	for _, key := range []string{mcs.AnnotationExports, mcs.AnnotationNativeIPs} {
		delete(a.Annotations, key)
		if value, found := b.Annotations[key]; found {
			annotate(a, key, value)
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}

// frozen returns the merge that corresponds to the existing import. It is used while the import is
// not written: the slices then follow from the import as it exists.
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

// shape writes the merge and the record onto an import. It leaves out fields that the CRD does not
// contain: the API server prunes them, and they would be written in every pass.
func (b builder) shape(imp *mcsv1beta1.ServiceImport) {
	Shape(b.merged, imp)
	annotate(imp, mcs.AnnotationExports, b.record)
	b.recordNative(imp)
	if !b.CRD.Policies {
		imp.Spec.InternalTrafficPolicy, imp.Spec.TrafficDistribution = nil, nil
	}
}

// setIPs writes as many ips as the CRD allows, and their families in the same order (C19).
func setIPs(imp *mcsv1beta1.ServiceImport, ips []string, crd observed.CRD, families bool) {
	imp.Spec.IPs = slices.Clone(ips[:min(len(ips), crd.MaxIPs)])
	if crd.IPFamilies && families {
		imp.Spec.IPFamilies = familiesOf(parse(imp.Spec.IPs))
	}
}

func annotate(imp *mcsv1beta1.ServiceImport, key, value string) {
	if imp.Annotations == nil {
		imp.Annotations = map[string]string{}
	}
	imp.Annotations[key] = value
}

// shapeMeta replaces the labels and annotations that came from exports. An invalid record is
// ignored.
func shapeMeta(m merge.Merged, imp *mcsv1beta1.ServiceImport) {
	var former observed.ExportedKeys
	_ = json.Unmarshal([]byte(imp.Annotations[mcs.AnnotationExported]), &former)
	drop(imp.Labels, former.Labels)
	drop(imp.Annotations, former.Annotations)
	delete(imp.Annotations, mcs.AnnotationExported)

	if imp.Labels == nil {
		imp.Labels = map[string]string{}
	}
	imp.Labels[mcs.LabelManagedBy] = mcs.ControllerName
	maps.Copy(imp.Labels, m.Labels)
	for key, value := range m.Annotations {
		annotate(imp, key, value)
	}
	if len(m.Labels)+len(m.Annotations) > 0 {
		// Strings always marshal.
		record, _ := json.Marshal(observed.ExportedKeys{Labels: slices.Sorted(maps.Keys(m.Labels)), Annotations: slices.Sorted(maps.Keys(m.Annotations))})
		annotate(imp, mcs.AnnotationExported, string(record))
	}
}

// drop removes former keys. A reserved key never came from an export, whatever the record contains.
func drop(all map[string]string, former []string) {
	for _, key := range former {
		if !mcs.Reserved(key) {
			delete(all, key)
		}
	}
}

// Shape writes the merge onto an import, in place: spec, labels and annotations. It does not write
// ips and ipFamilies, which follow the derived Service, and it keeps labels and annotations that
// others added. Defaults are always written out in the same way, so a second call changes nothing.
func Shape(m merge.Merged, imp *mcsv1beta1.ServiceImport) {
	spec := &imp.Spec
	spec.Type = m.Type
	// The API requires the list, even if it is empty.
	spec.Ports = make([]mcsv1beta1.ServicePort, 0, len(m.Ports))
	for _, port := range m.Ports {
		spec.Ports = append(spec.Ports, *port.DeepCopy())
	}
	spec.SessionAffinity, spec.SessionAffinityConfig = "", nil
	if m.Type != mcsv1beta1.Headless { // C17: affinity has no meaning for Headless.
		spec.SessionAffinity = m.Affinity
		if m.Affinity == corev1.ServiceAffinityClientIP {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(m.AffinityTimeout)}}
		}
	}
	spec.InternalTrafficPolicy, spec.TrafficDistribution = new(m.InternalPolicy), nil
	if m.Distribution != "" {
		spec.TrafficDistribution = new(m.Distribution)
	}
	shapeMeta(m, imp)
}
