package plan

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// annotationSeal is in the cache only. Its value is the digest of a slice's content, or a sealedExport. Its key has a random part that never leaves
// this process: an annotation that a user wrote on the API server is therefore never read as a digest.
var annotationSeal = "clusterset-dns.io/seal-" + rand.Text()

// Seal puts a digest in the place of a slice's endpoints and ports, which nobody reads: they are only compared with what they should
// be, and then written whole. Among thousands of imports they would be most of the memory.
func Seal(slice *discoveryv1.EndpointSlice) {
	seal := content(slice)
	if slice.Annotations == nil {
		slice.Annotations = map[string]string{}
	}
	slice.Annotations[annotationSeal] = seal
	slice.Endpoints, slice.Ports = nil, nil
}

// content is the digest of what a slice holds, sealed or not.
func content(slice *discoveryv1.EndpointSlice) string {
	if seal, ok := slice.Annotations[annotationSeal]; ok {
		return seal
	}
	// No endpoints or ports are the same whether nil or empty.
	text, err := json.Marshal([]any{slice.AddressType, append([]discoveryv1.Endpoint{}, slice.Endpoints...), append([]discoveryv1.EndpointPort{}, slice.Ports...)})
	if err != nil {
		return "" // Such values always have a JSON form.
	}
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:16])
	if len(slice.Endpoints) == 0 {
		return sealOfNone + digest
	}
	return digest
}

// sealOfNone begins the digest of a slice without endpoints.
const sealOfNone = "none-"

// Empty is true for a slice without endpoints, sealed or not.
func Empty(slice *discoveryv1.EndpointSlice) bool {
	return strings.HasPrefix(content(slice), sealOfNone)
}

// unsealed is an edit of a slice that was sealed, with the content that it is to have.
func unsealed(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	delete(slice.Annotations, annotationSeal)
	return slice
}

// sameWhole is true where an edit of a slice, sealed or not, changes nothing.
func sameWhole(old, edited *discoveryv1.EndpointSlice) bool {
	annotations := maps.Clone(old.Annotations)
	delete(annotations, annotationSeal)
	return content(old) == content(edited) && maps.Equal(old.Labels, edited.Labels) && maps.Equal(annotations, edited.Annotations) &&
		equality.Semantic.DeepEqual(old.OwnerReferences, edited.OwnerReferences)
}

// sealedExport is what is kept of the labels and annotations of an export that are left out.
type sealedExport struct {
	AllLabels, AllAnnotations string // digests
	Notes                     []string
}

// SealExport takes from an export what nobody reads. An import takes over 64 KiB of its labels and annotations, and an export can hold 1 MB:
// some hundred of them would be all of the memory. TrimExport gives the same as before.
func SealExport(export *mcsv1beta1.ServiceExport) {
	trimmed := TrimExport(export)
	export.ManagedFields, export.Labels, export.Annotations, export.Finalizers, export.OwnerReferences = nil, nil, nil, nil, nil
	if trimmed == nil {
		export.Spec = mcsv1beta1.ServiceExportSpec{} // It is being deleted.
		return
	}
	if len(trimmed.Notes) == 0 {
		return // Nothing is left out.
	}
	text, _ := json.Marshal(sealedExport{trimmed.AllLabels.text(), trimmed.AllAnnotations.text(), trimmed.Notes}) // Strings: no error.
	export.Annotations = map[string]string{annotationSeal: string(text)}
	export.Spec.ExportedLabels, export.Spec.ExportedAnnotations = trimmed.Labels, trimmed.Annotations
}

// unsealedExport is nil for an export that is whole.
func unsealedExport(export *mcsv1beta1.ServiceExport) *Export {
	var seal sealedExport
	if text, sealed := export.Annotations[annotationSeal]; !sealed || json.Unmarshal([]byte(text), &seal) != nil {
		return nil
	}
	return &Export{
		Created: export.CreationTimestamp, Labels: export.Spec.ExportedLabels, Annotations: export.Spec.ExportedAnnotations,
		AllLabels: digestOf(seal.AllLabels), AllAnnotations: digestOf(seal.AllAnnotations), Notes: seal.Notes,
	}
}
