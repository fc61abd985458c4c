package diff

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// annotationSeal is in the cache only. Its value is the digest of a slice's content. Its key has a random part that never leaves
// this process: an annotation that a user wrote on the API server is therefore never read as a digest.
var annotationSeal = "clusterset-dns.io/seal-" + rand.Text()

// sliceAnnotations are ours on a slice; there may be others'.
var sliceAnnotations = []string{corev1.EndpointsLastChangeTriggerTime, mcs.AnnotationHiddenPorts, mcs.AnnotationCopyOf}

// Overlay is the slice as desired.ImportedSlices gives it, with what others put on it, and the owner and the label of its derived
// Service. A slice's address type cannot change: with another type it has another name.
func Overlay(have, want *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	slice := have.DeepCopy()
	if slice.Labels == nil {
		slice.Labels = map[string]string{}
	}
	maps.Copy(slice.Labels, want.Labels)
	for _, key := range mcs.ProxyLabels {
		delete(slice.Labels, key)
	}
	for _, key := range sliceAnnotations {
		delete(slice.Annotations, key)
	}
	if slice.Annotations == nil {
		slice.Annotations = map[string]string{}
	}
	maps.Copy(slice.Annotations, want.Annotations)
	copied := want.DeepCopy()
	slice.Endpoints, slice.Ports = copied.Endpoints, copied.Ports
	return slice
}

// SameSlice is true where the edited slice has nothing to be written. nil and empty are the same: the API server makes no
// difference either.
func SameSlice(old, edited *discoveryv1.EndpointSlice) bool {
	return maps.Equal(old.Labels, edited.Labels) && maps.Equal(old.Annotations, edited.Annotations) &&
		equality.Semantic.DeepEqual(old.OwnerReferences, edited.OwnerReferences) &&
		equality.Semantic.DeepEqual(old.Ports, edited.Ports) && equality.Semantic.DeepEqual(old.Endpoints, edited.Endpoints)
}

// SealSlice replaces a slice's endpoints and ports with a digest. They are never read: they are only compared with what they should
// be, and then written whole. Among thousands of imports they would be most of the memory.
func SealSlice(slice *discoveryv1.EndpointSlice) {
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

// HasNoEndpoints is true for a slice without endpoints, sealed or not.
func HasNoEndpoints(slice *discoveryv1.EndpointSlice) bool {
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
