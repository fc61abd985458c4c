package merge

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// TrimSlice keeps only the parts of a slice that an import needs (C38), in place: names of Pods and
// hints for another cluster's nodes have no meaning elsewhere. Equal conditions of endpoints share
// their values in memory.
func TrimSlice(slice *discoveryv1.EndpointSlice) {
	slice.ManagedFields, slice.OwnerReferences, slice.Finalizers = nil, nil, nil
	slice.Annotations = mcs.Only(slice.Annotations, corev1.EndpointsLastChangeTriggerTime, mcs.AnnotationHiddenPorts, mcs.AnnotationTerms)
	slice.Labels = mcs.Only(slice.Labels, discoveryv1.LabelServiceName, mcsv1beta1.LabelServiceName, mcsv1beta1.LabelSourceCluster)
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		slice.Endpoints[i] = discoveryv1.Endpoint{
			Addresses: slices.Clip(e.Addresses), Hostname: e.Hostname, NodeName: e.NodeName, Zone: e.Zone,
			Conditions: discoveryv1.EndpointConditions{
				Ready: sharedBool(e.Conditions.Ready), Serving: sharedBool(e.Conditions.Serving), Terminating: sharedBool(e.Conditions.Terminating),
			},
		}
	}
}

var isTrue, isFalse = new(true), new(false)

func sharedBool(b *bool) *bool {
	switch {
	case b == nil:
		return nil
	case *b:
		return isTrue
	default:
		return isFalse
	}
}

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

// MaxTerms limits the text of mcs.AnnotationTerms, in bytes. All annotations of an object have room for
// 256 KiB. A Service has to have a thousand ports to come near.
const MaxTerms = 128 << 10

// Terms returns what peers read of a Service, as the text of mcs.AnnotationTerms. It is empty if it is
// too long: peers then do not know the Service.
func (s *ServiceSpec) Terms() string {
	text, _ := json.Marshal(s) // Strings and numbers always marshal.
	if len(text) > MaxTerms {
		return ""
	}
	return string(text)
}

// ReadTerms sets the Service that a peer has described, and reports whether that worked: the text can be
// too long or invalid, or describe a Service that cannot be exported.
func (s *ServiceSpec) ReadTerms(text string) bool {
	if len(text) > MaxTerms || json.Unmarshal([]byte(text), s) != nil {
		return false
	}
	return !s.External && (s.Type == mcsv1beta1.ClusterSetIP || s.Type == mcsv1beta1.Headless)
}

// Digest is the digest of a set of labels or annotations.
type Digest [sha256.Size]byte

// digest also hashes the length of each text: {"a": "bc"} and {"ab": "c"} differ.
func digest(all map[string]string) Digest {
	if len(all) == 0 {
		return Digest{}
	}
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		// A hash returns no error.
		_, _ = fmt.Fprintf(hash, "%d %d %s%s", len(key), len(all[key]), key, all[key])
	}
	return Digest(hash.Sum(nil))
}

// MarshalText implements encoding.TextMarshaler. The text is hexadecimal.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It ignores an invalid text: the digest is then
// that of an empty set.
func (d *Digest) UnmarshalText(text []byte) error {
	if raw, err := hex.DecodeString(string(text)); err == nil && len(raw) == len(d) {
		copy(d[:], raw)
	}
	return nil
}
