package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// TestUnchangedSourcesFollowTheImport: the slices of peers that have not changed get the hints that the
// import's traffic distribution asks for.
func TestUnchangedSourcesFollowTheImport(t *testing.T) {
	there := mirrored(exporting("c2", 1, 80, "10.2.0.1"))
	there.Slices[0].Endpoints[0].Zone = new("eu-1")
	c := newName("c1", exporting("c1", 0, 80, "10.1.0.1"), there)
	c.settle(t)
	c.Members[0].Service.Distribution = corev1.ServiceTrafficDistributionPreferSameZone
	c.settle(t)
	for _, slice := range c.slices {
		if ownership.SliceIsFrom("c2", slice, c.imp) && slice.Endpoints[0].Hints == nil {
			t.Errorf("%s has no hints", slice.Name)
		}
	}
}

// TestEditedSlicesArePutRight: what a user removes from a slice of the controller returns.
func TestEditedSlicesArePutRight(t *testing.T) {
	c := newName("c1", exporting("c1", 0, 80, "10.1.0.1"), mirrored(exporting("c2", 1, 80, "10.2.0.1")))
	c.settle(t)
	for what, edit := range map[string]func(*discoveryv1.EndpointSlice){
		"its owner":              func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil },
		"the description":        func(s *discoveryv1.EndpointSlice) { delete(s.Annotations, mcs.AnnotationTerms) },
		"an endpoint's Hostname": func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hostname = new("his") },
	} {
		for i, slice := range c.slices {
			if !ownership.SliceIsFrom("c1", slice, c.imp) {
				continue
			}
			before := slice.DeepCopy()
			edit(slice)
			c.settle(t)
			if now := c.slices[i]; len(now.OwnerReferences) != 1 || now.Annotations[mcs.AnnotationTerms] != before.Annotations[mcs.AnnotationTerms] || now.Annotations[mcs.AnnotationTerms] == "" || now.Endpoints[0].Hostname != nil {
				t.Errorf("%s: it is %+v", what, now)
			}
		}
	}
}
