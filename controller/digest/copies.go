package digest

import (
	"weak"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// Copies are the digests of the slices that a plan makes of those of other clusters. With them, the
// next plan of the name neither copies the endpoints of a slice that has not changed, nor computes
// their digest.
type Copies []copied

// copied is a copy. It is known by the address of its source: a store replaces its objects, and never
// changes them. The pointer is weak, because a store can read all objects anew without a plan of the
// name, and the old ones would stay. shape is everything else that the content depends on.
type copied struct {
	source weak.Pointer[discoveryv1.EndpointSlice]
	shape  string
	digest Digest
}

// Add adds a copy.
func (c *Copies) Add(source *discoveryv1.EndpointSlice, shape string, d Digest) {
	*c = append(*c, copied{weak.Make(source), shape, d})
}

// Lookup finds the copies of the last plan.
type Lookup struct {
	last  Copies
	next  int // the place of the next copy, unless other sources have come or gone
	index map[weak.Pointer[discoveryv1.EndpointSlice]]int
}

// In returns a Lookup of copies.
func (c Copies) In() *Lookup { return &Lookup{last: c} }

// Find returns the digest of the copy of a source, or "" if there is none of this shape.
func (l *Lookup) Find(source *discoveryv1.EndpointSlice, shape string) Digest {
	at, found := l.next, weak.Make(source)
	if at >= len(l.last) || l.last[at].source != found {
		at = l.place(found)
	}
	if at < 0 {
		return ""
	}
	if l.next = at + 1; l.last[at].shape != shape {
		return ""
	}
	return l.last[at].digest
}

// place returns the place of a copy, or -1.
func (l *Lookup) place(source weak.Pointer[discoveryv1.EndpointSlice]) int {
	if l.index == nil {
		l.index = make(map[weak.Pointer[discoveryv1.EndpointSlice]]int, len(l.last))
		for i, c := range l.last {
			l.index[c.source] = i
		}
	}
	if i, found := l.index[source]; found {
		return i
	}
	return -1
}
