package merge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// MaxExported limits the keys and values of the labels and annotations that are taken over. A
// ServiceExport can contain more than an import: the limit of 256 KiB for an object's annotations
// does not apply to its lists, and the keys are written a second time, into AnnotationExported.
const MaxExported = 64 << 10

// maxNotes limits the notes on an export's faults.
const maxNotes = 10

// takeOver sets the labels and annotations that an import takes over, and a note on each that it
// does not. One invalid label must not cost the others: the API server would refuse the whole
// import.
func (e *Export) takeOver(labels, annotations map[string]string) {
	in := intake{room: MaxExported}
	e.Labels = in.take("label", labels, labelFault)
	e.Annotations = in.take("annotation", annotations, annotationFault)
	if in.more > 0 {
		in.notes = append(in.notes, fmt.Sprintf("%d more", in.more))
	}
	e.Notes = slices.Clip(in.notes)
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
	in.notes = append(in.notes, fmt.Sprintf("%s %q %s", kind, brief.Clip(key), why))
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
			taken = map[string]string{} // There can be half a million of them.
		}
		taken[key] = value
		in.room -= size
	}
	return taken
}

func labelFault(key, value string) string {
	switch {
	case mcs.Reserved(key):
		return "has a reserved key"
	case len(validation.IsQualifiedName(key)) > 0:
		return "has an invalid key"
	// The length first: the expression would read all of a value, which can have a megabyte.
	case len(value) > validation.LabelValueMaxLength || len(validation.IsValidLabelValue(value)) > 0:
		return "has an invalid value"
	}
	return ""
}

func annotationFault(key, _ string) string {
	switch {
	case mcs.Reserved(key):
		return "has a reserved key"
	case len(validation.IsQualifiedName(strings.ToLower(key))) > 0: // The API server does the same.
		return "has an invalid key"
	}
	return ""
}
