package diff

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// annotationDigest exists only in the cache. Its value is the digest of a slice's content. Its key
// has a random part that never leaves this process, so that an annotation written by a user on the
// API server is never read as a digest.
var annotationDigest = "clusterset-dns.io/digest-" + rand.Text()

// KeepDigest replaces a slice's endpoints and ports with a digest. They are never read: they are
// only compared with the desired ones, and then written as a whole. With thousands of imports they
// would use most of the memory.
func KeepDigest(slice *discoveryv1.EndpointSlice) {
	digest := content(slice)
	if slice.Annotations == nil {
		slice.Annotations = map[string]string{}
	}
	slice.Annotations[annotationDigest] = digest
	slice.Endpoints, slice.Ports = nil, nil
}

// content returns the digest of a slice's content: the digest from KeepDigest, or a new one.
func content(slice *discoveryv1.EndpointSlice) string {
	if digest, ok := slice.Annotations[annotationDigest]; ok {
		return digest
	}
	// nil and empty endpoints or ports have the same digest.
	text, err := json.Marshal([]any{slice.AddressType, append([]discoveryv1.Endpoint{}, slice.Endpoints...), append([]discoveryv1.EndpointPort{}, slice.Ports...)})
	if err != nil {
		return "" // Such values always marshal.
	}
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:16])
	if len(slice.Endpoints) == 0 {
		return noEndpoints + digest
	}
	return digest
}

// noEndpoints is the prefix of the digest of a slice without endpoints.
const noEndpoints = "none-"

// HasNoEndpoints reports whether a slice has no endpoints, also after KeepDigest.
func HasNoEndpoints(slice *discoveryv1.EndpointSlice) bool {
	return strings.HasPrefix(content(slice), noEndpoints)
}

// withoutDigest removes the digest from an edited slice that has its new content.
func withoutDigest(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	delete(slice.Annotations, annotationDigest)
	return slice
}

// sameWhole reports whether an edit of a slice changes nothing.
func sameWhole(old, edited *discoveryv1.EndpointSlice) bool {
	annotations := maps.Clone(old.Annotations)
	delete(annotations, annotationDigest)
	return content(old) == content(edited) && maps.Equal(old.Labels, edited.Labels) && maps.Equal(annotations, edited.Annotations) &&
		equality.Semantic.DeepEqual(old.OwnerReferences, edited.OwnerReferences)
}
