package digest

import (
	"weak"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// Copies are the digests of the slices that a plan makes of those of other clusters. With them, the
// next plan of the name neither copies the endpoints of a slice that has not changed, nor computes
// their digest.
//
// A copy is known by the address of its source: a store replaces its objects, and never changes them. The
// pointer is weak, because a store can read all objects anew without a plan of the name, and the old ones
// would stay.
type Copies map[weak.Pointer[discoveryv1.EndpointSlice]]copied

// copied is a copy. shape is everything besides the source that its content depends on.
type copied struct {
	shape  string
	digest Digest
}

// Add adds a copy.
func (c Copies) Add(source *discoveryv1.EndpointSlice, shape string, d Digest) {
	c[weak.Make(source)] = copied{shape, d}
}

// Find returns the digest of the copy of a source, or "" if there is none of this shape.
func (c Copies) Find(source *discoveryv1.EndpointSlice, shape string) Digest {
	if last := c[weak.Make(source)]; last.shape == shape {
		return last.digest
	}
	return ""
}
