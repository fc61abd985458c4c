package digest

import discoveryv1 "k8s.io/api/discovery/v1"

// Copies are the digests of the slices that a plan makes of those of other clusters. With them, the
// next plan of the name neither copies the endpoints of a slice that has not changed, nor computes
// their digest.
type Copies []copied

// copied is a copy. It is known by the address of its source: a store replaces its objects, and never
// changes them. shape is everything else that the content depends on.
type copied struct {
	source *discoveryv1.EndpointSlice
	shape  string
	digest Digest
}

// Find returns the digest of the copy of a source, or "" if there is none of this shape. at is the
// place where the copy is, unless other sources have come or gone.
func (c Copies) Find(source *discoveryv1.EndpointSlice, shape string, at int) Digest {
	if at >= len(c) || c[at].source != source {
		for at = 0; at < len(c) && c[at].source != source; {
			at++
		}
	}
	if at == len(c) || c[at].shape != shape {
		return ""
	}
	return c[at].digest
}

// Add adds a copy.
func (c *Copies) Add(source *discoveryv1.EndpointSlice, shape string, d Digest) {
	*c = append(*c, copied{source, shape, d})
}
