package merge

import (
	"crypto/rand"
	"encoding/json"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// annotationTrimmed is in the cache only, on a ServiceExport. Its key has a random part that never leaves this process: an annotation that a user
// wrote on the API server is therefore never read as a digest.
var annotationTrimmed = "clusterset-dns.io/trimmed-" + rand.Text()

// trimmings is what is kept of the labels and annotations of an export that are left out.
type trimmings struct {
	AllLabels, AllAnnotations Digest
	Notes                     []string
}

// KeepTrimmed takes from an export what is never read. An import takes over 64 KiB of its labels and annotations, and an export can hold 1 MB:
// some hundred of them would be all of the memory. TrimExport gives the same as before.
func KeepTrimmed(export *mcsv1beta1.ServiceExport) {
	trimmed := TrimExport(export)
	export.ManagedFields, export.Labels, export.Annotations, export.Finalizers, export.OwnerReferences = nil, nil, nil, nil, nil
	if trimmed == nil {
		export.Spec = mcsv1beta1.ServiceExportSpec{} // It is being deleted.
		return
	}
	if len(trimmed.Notes) == 0 {
		return // Nothing is left out.
	}
	text, _ := json.Marshal(trimmings{trimmed.AllLabels, trimmed.AllAnnotations, trimmed.Notes}) // Strings: no error.
	export.Annotations = map[string]string{annotationTrimmed: string(text)}
	export.Spec.ExportedLabels, export.Spec.ExportedAnnotations = trimmed.Labels, trimmed.Annotations
}

// untrimmings is nil for an export that is whole.
func untrimmings(export *mcsv1beta1.ServiceExport) *Export {
	var rest trimmings
	if text, trimmed := export.Annotations[annotationTrimmed]; !trimmed || json.Unmarshal([]byte(text), &rest) != nil {
		return nil
	}
	return &Export{
		Created: export.CreationTimestamp, Labels: export.Spec.ExportedLabels, Annotations: export.Spec.ExportedAnnotations,
		AllLabels: rest.AllLabels, AllAnnotations: rest.AllAnnotations, Notes: rest.Notes,
	}
}
