package desired

import (
	"fmt"
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// A source slice has 999 endpoints, and a slice of the controller 100 at most. One endpoint more changes one part, or splits it.
func TestOneEndpointMovesFewParts(t *testing.T) {
	m := &sliceBuilder{most: 100}
	var all []discoveryv1.Endpoint
	for i := range 999 {
		all = append(all, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 1+i%3, i/250, i%250)}})
	}
	before := m.parts(all)
	sum := 0
	for n, part := range before {
		if sum += len(part); len(part) > 100 || len(part) == 0 {
			t.Errorf("part %d has %d endpoints", n, len(part))
		}
	}
	if sum != len(all) || len(before) > 20 {
		t.Errorf("%d parts have %d endpoints", len(before), sum)
	}
	for i := range 100 {
		after := m.parts(append(slices.Clone(all), discoveryv1.Endpoint{Addresses: []string{fmt.Sprint("10.9.0.", i)}}))
		changed := 0
		for n, part := range after {
			if !equality.Semantic.DeepEqual(part, before[n]) {
				changed++
			}
		}
		if changed > 2 {
			t.Errorf("endpoint 10.9.0.%d changed %d of %d parts", i, changed, len(after))
		}
	}
	for _, part := range m.parts(slices.Repeat(all[:1], 500)) {
		if len(part) > 100 {
			t.Errorf("of 500 endpoints with one address, one part has %d", len(part))
		}
	}
}
