package merge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Digest is of a set of labels or annotations.
type Digest [sha256.Size]byte

// digest hashes the length of each text too: {"a": "bc"} and {"ab": "c"} differ.
func digest(all map[string]string) Digest {
	if len(all) == 0 {
		return Digest{}
	}
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		_, _ = fmt.Fprintf(hash, "%d %d %s%s", len(key), len(all[key]), key, all[key]) // A hash returns no error.
	}
	return Digest(hash.Sum(nil))
}

// MarshalText implements encoding.TextMarshaler: hexadecimal digits.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Garbage counts as the digest of an empty set.
func (d *Digest) UnmarshalText(text []byte) error {
	if raw, err := hex.DecodeString(string(text)); err == nil && len(raw) == len(d) {
		copy(d[:], raw)
	}
	return nil
}
