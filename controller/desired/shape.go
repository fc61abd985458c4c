package desired

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

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
