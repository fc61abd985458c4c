package digest

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestCopiesAreFound(t *testing.T) {
	last := Copies{}
	var sources []*discoveryv1.EndpointSlice
	for i := range 5 {
		source := &discoveryv1.EndpointSlice{}
		source.Name = fmt.Sprint(i)
		sources = append(sources, source)
		last.Add(source, "shape", Digest(source.Name))
	}
	// One is new, one is gone, two have changed places, and one has another shape.
	for _, want := range []struct {
		source *discoveryv1.EndpointSlice
		shape  string
		digest Digest
	}{
		{&discoveryv1.EndpointSlice{}, "shape", ""}, {sources[0], "shape", "0"}, {sources[3], "shape", "3"}, {sources[2], "shape", "2"}, {sources[4], "another", ""},
		{sources[4].DeepCopy(), "shape", ""}, {sources[4], "shape", "4"},
	} {
		if got := last.Find(want.source, want.shape); got != want.digest {
			t.Errorf("the digest is %q; want %q", got, want.digest)
		}
	}
}

// A store that has read all its objects anew must not have twice the memory.
func TestCopiesKeepNoSource(t *testing.T) {
	source := &discoveryv1.EndpointSlice{}
	source.Name = "large"
	last := Copies{}
	last.Add(source, "", "0 0")
	is := weak.Make(source)
	source = nil
	runtime.GC()
	if is.Value() != nil {
		t.Error("the source of a copy is kept")
	}
	runtime.KeepAlive(last)
}
