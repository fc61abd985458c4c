package compact

import (
	"fmt"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

func TestEqualStringsAreOne(t *testing.T) {
	var all Strings
	a, b := fmt.Sprint("node-", 1), fmt.Sprint("node-", 1)
	if all.One(&a) != all.One(&b) || all.One(nil) != nil {
		t.Error("equal strings are two, or none is one")
	}
	for i := range 3 * size {
		name := fmt.Sprint("pod-", i)
		if got := all.One(&name); *got != name {
			t.Fatalf("%q stands for %q", *got, name)
		}
	}
	if len(all.all) > size {
		t.Errorf("%d strings are kept; want %d at most", len(all.all), size)
	}
}

func TestASliceKeepsItsContent(t *testing.T) {
	slice := &discoveryv1.EndpointSlice{Endpoints: make([]discoveryv1.Endpoint, 0, 8)}
	for range 3 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}, NodeName: new("node-1"), Zone: new("a")})
	}
	before := slice.DeepCopy()
	new(Strings).Slice(slice)
	if !equality.Semantic.DeepEqual(slice, before) {
		t.Errorf("%+v became %+v", before, slice)
	}
	if e := slice.Endpoints; cap(e) != len(e) || e[0].NodeName != e[2].NodeName || e[0].Zone != e[2].Zone {
		t.Errorf("room for %d endpoints, names %p and %p", cap(e), e[0].NodeName, e[2].NodeName)
	}
}
