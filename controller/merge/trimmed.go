package merge

import (
	"crypto/rand"
	"encoding/json"
	"strings"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// annotationTrimmed exists only in the cache, on a ServiceExport. Its key has a random part that
// never leaves this process, so that an annotation written by a user on the API server is never
// read as a digest.
var annotationTrimmed = "clusterset-dns.io/trimmed-" + rand.Text()

// maxAnswer is the number of bytes of an annotation that is "true" or "false" that are kept for a
// message.
const maxAnswer = 64

// trimmings is what remains of the labels and annotations of an export that are left out.
type trimmings struct {
	AllLabels, AllAnnotations Digest
	Notes                     []string
}

// KeepTrimmed removes the parts of an export that are never read. An import takes over 64 KiB of an
// export's labels and annotations, and an export can contain 1 MB: some hundred exports would use
// all of the memory. TrimExport returns the same result as before.
func KeepTrimmed(export *mcsv1beta1.ServiceExport) {
	trimmed, texts, consumers := TrimExport(export), preference.Read(export.Annotations), readConsumers(export.Annotations)
	answers := mcs.Only(export.Annotations, mcs.AnnotationNativeName, mcs.AnnotationProbe)
	if ownership.Applied(export) { // An export that auto-export made is its user's now, although apply has not removed the label.
		export.Labels = nil
	}
	export.ManagedFields, export.Finalizers, export.OwnerReferences = nil, nil, nil
	export.Labels = mcs.Only(export.Labels, mcs.LabelManagedBy) // Package autoexport reads it.
	export.Annotations = texts.Annotations()
	if consumers != nil {
		export.Annotations[mcs.AnnotationToClusters] = strings.Join(consumers, ",") // never longer than it was
	}
	for key, text := range answers {
		export.Annotations[key] = strings.Clone(text[:min(len(text), maxAnswer)])
	}
	if trimmed == nil {
		export.Spec = mcsv1beta1.ServiceExportSpec{} // It is being deleted.
		return
	}
	if len(trimmed.Notes) == 0 {
		return // Nothing is left out.
	}
	// Strings always marshal.
	text, _ := json.Marshal(trimmings{trimmed.AllLabels, trimmed.AllAnnotations, trimmed.Notes})
	export.Annotations[annotationTrimmed] = string(text)
	export.Spec.ExportedLabels, export.Spec.ExportedAnnotations = trimmed.Labels, trimmed.Annotations
}

// untrimmings returns the Export of a trimmed ServiceExport, or nil if the ServiceExport is
// complete.
func untrimmings(export *mcsv1beta1.ServiceExport) *Export {
	var rest trimmings
	if text, trimmed := export.Annotations[annotationTrimmed]; !trimmed || json.Unmarshal([]byte(text), &rest) != nil {
		return nil
	}
	return &Export{
		Created: export.CreationTimestamp, Labels: export.Spec.ExportedLabels, Annotations: export.Spec.ExportedAnnotations,
		AllLabels: rest.AllLabels, AllAnnotations: rest.AllAnnotations, Notes: rest.Notes, Preference: preference.Read(export.Annotations),
		Consumers: readConsumers(export.Annotations), NativeName: mcs.AnswerOf(export.Annotations, mcs.AnnotationNativeName) == mcs.Yes,
		Probe: mcs.AnswerOf(export.Annotations, mcs.AnnotationProbe) == mcs.Yes,
	}
}
