package merge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

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
