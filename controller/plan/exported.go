package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// AnnotationExported, on an import, lists the keys of the labels and annotations that came from an export. A former winner's go
// when another export takes its place (C18); what others put on the import stays.
const AnnotationExported = "clusterset-dns.io/exported"

// maxExported bounds keys and values of the labels and annotations that are taken over. A ServiceExport may hold more than an
// import: its lists are not under the limit of 256 KiB for an object's annotations, and the keys are written a second time, into
// AnnotationExported.
const maxExported = 64 << 10

// maxNotes bounds what is told of an export's faults.
const maxNotes = 10

// reservedDomains, and the domains below them, are of keys that an import takes over from nobody: controllers act on them. An
// export is written by a user of a namespace of some cluster, the import by a controller that may write it everywhere. Ours
// would point at addresses and Services (AnnotationVIPs, AnnotationDerivedService); Karmada's would have the import handled as one
// that Karmada manages; those of Kubernetes are reserved for its components (kubectl's last-applied-configuration is one).
var reservedDomains = []string{"clusterset-dns.io", "k8s.io", "karmada.io", "kubernetes.io", "x-k8s.io"}

// appDomain is that of Kubernetes' recommended labels. They describe an application, and are for everyone to use; but
// LabelManagedBy says whose object it is.
const appDomain = "app.kubernetes.io"

func reserved(key string) bool {
	domain, _, prefixed := strings.Cut(strings.ToLower(key), "/")
	if !prefixed || domain == appDomain && key != LabelManagedBy {
		return false
	}
	return slices.ContainsFunc(reservedDomains, func(of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) })
}

// takeOver is what an import takes over from an export's labels and annotations, and a note on what it does not. One bad label must
// not cost the others, as the API server would refuse the import as a whole.
func takeOver(allLabels, allAnnotations map[string]string) (labels, annotations map[string]string, notes []string) {
	in := intake{room: maxExported}
	labels = in.take("label", allLabels, labelFault)
	annotations = in.take("annotation", allAnnotations, annotationFault)
	if in.more > 0 {
		in.notes = append(in.notes, fmt.Sprintf("%d more", in.more))
	}
	return labels, annotations, slices.Clip(in.notes)
}

type intake struct {
	room  int
	notes []string
	more  int // notes that are left out
}

func (in *intake) note(kind, key, why string) {
	if len(in.notes) >= maxNotes {
		in.more++
		return
	}
	in.notes = append(in.notes, fmt.Sprintf("%s %q %s", kind, clip(key), why))
}

func (in *intake) take(kind string, all map[string]string, fault func(key, value string) string) map[string]string {
	var taken map[string]string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value := all[key]
		why, size := fault(key, value), len(key)+len(value)
		if why == "" && size > in.room {
			why = "is too long"
		}
		if why != "" {
			in.note(kind, key, why)
			continue
		}
		if taken == nil {
			taken = map[string]string{} // Of all there may be half a million.
		}
		taken[key] = value
		in.room -= size
	}
	return taken
}

func labelFault(key, value string) string {
	switch {
	case reserved(key):
		return "has a reserved key"
	case len(validation.IsQualifiedName(key)) > 0:
		return "has an invalid key"
	case len(validation.IsValidLabelValue(value)) > 0:
		return "has an invalid value"
	}
	return ""
}

func annotationFault(key, _ string) string {
	switch {
	case reserved(key):
		return "has a reserved key"
	case len(validation.IsQualifiedName(strings.ToLower(key))) > 0: // As the API server does.
		return "has an invalid key"
	}
	return ""
}

// exportedKeys is the content of AnnotationExported.
type exportedKeys struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// shapeMeta replaces the labels and annotations that came from exports. A record that is garbage counts as none.
func (m Merged) shapeMeta(imp *mcsv1beta1.ServiceImport) {
	var former exportedKeys
	_ = json.Unmarshal([]byte(imp.Annotations[AnnotationExported]), &former)
	drop(imp.Labels, former.Labels)
	drop(imp.Annotations, former.Annotations)
	delete(imp.Annotations, AnnotationExported)

	if imp.Labels == nil {
		imp.Labels = map[string]string{}
	}
	imp.Labels[LabelManagedBy] = Manager
	maps.Copy(imp.Labels, m.Labels)
	for key, value := range m.Annotations {
		annotate(imp, key, value)
	}
	if len(m.Labels)+len(m.Annotations) > 0 {
		record, _ := json.Marshal(exportedKeys{slices.Sorted(maps.Keys(m.Labels)), slices.Sorted(maps.Keys(m.Annotations))}) // Strings: no error.
		annotate(imp, AnnotationExported, string(record))
	}
}

// exportedOn are the labels and annotations of an import that came from an export.
func exportedOn(imp *mcsv1beta1.ServiceImport) (labels, annotations map[string]string) {
	var keys exportedKeys
	_ = json.Unmarshal([]byte(imp.Annotations[AnnotationExported]), &keys)
	return only(imp.Labels, keys.Labels...), only(imp.Annotations, keys.Annotations...)
}

// drop takes former keys away. A reserved one never came from an export, whoever wrote the record.
func drop(all map[string]string, former []string) {
	for _, key := range former {
		if !reserved(key) {
			delete(all, key)
		}
	}
}
