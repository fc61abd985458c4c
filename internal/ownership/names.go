package ownership

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

const derivedPrefix = "derived-"

// DerivedName returns the name of the import's derived Service: the value of the annotation,
// otherwise derived-<name> as in Karmada (K1).
func DerivedName(imp *mcsv1beta1.ServiceImport) string {
	if ByKarmada(imp) {
		// Karmada does not shorten the name: if it is too long, there is no such Service.
		return derivedPrefix + imp.Name
	}
	if name := imp.Annotations[mcs.AnnotationDerivedService]; name != "" {
		return name
	}
	return DefaultDerivedName(imp.Namespace, imp.Name)
}

// DefaultDerivedName returns the name of an import's derived Service without an annotation. If no
// Service can have the name (it is too long, or has a dot), it is shortened and gets a hash of
// namespace and name. The separator in the hashed text distinguishes "a/bc" from "ab/c".
func DefaultDerivedName(namespace, name string) string {
	plain := derivedPrefix + name
	if len(validation.IsDNS1035Label(plain)) == 0 {
		return plain
	}
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	hash := "-" + hex.EncodeToString(sum[:])[:HashLength]
	stem := strings.ReplaceAll(plain, ".", "-")
	stem = stem[:min(len(stem), validation.DNS1035LabelMaxLength-len(hash))]
	return strings.TrimRight(stem, "-") + hash
}

// SliceStem returns the start of the name of an EndpointSlice that the controller makes:
// <service>.<cluster id>.<address type>-. A Service's name has no dot, so the stem identifies the
// Service and the cluster. The address type of a slice cannot change; because the name contains it,
// it never has to. The stem has at most 132 bytes; a name can have 253.
func SliceStem(service, cluster string, of discoveryv1.AddressType) string {
	return fmt.Sprintf("%s.%s.%s-", service, cluster, strings.ToLower(string(of)))
}

// HashLength is the length of the hash at the end of such a name, in hexadecimal digits.
const HashLength = 10

// IsHash reports whether a text can be the hash at the end of such a name.
func IsHash(text string) bool {
	return len(text) == HashLength && strings.Trim(text, "0123456789abcdef") == ""
}

// isSliceName reports whether a name is that of a slice that the controller makes for an import.
// Names that others choose do not have these dots and the hash.
func isSliceName(slice, imp string) bool {
	at := strings.LastIndex(slice, "-")
	return strings.HasPrefix(slice, imp+".") && at > 0 && IsHash(slice[at+1:])
}
