package plan

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// A slice whose mark somebody edited away, and which is not needed any more, would lead to endpoints that are gone: found by seed 456831125
// of test/clusterset's random histories. One of another name is a forged one, and goes too.
func TestSliceWithoutItsMarkGoesToo(t *testing.T) {
	c := newName("c1", exporting("c1", 0, 80, "10.9.1.1"))
	c.settle(t)
	if len(c.slices) != 1 {
		t.Fatalf("slices %v", c.slices)
	}
	marked := c.slices[0].DeepCopy()
	marked.Labels[discoveryv1.LabelManagedBy] = "me"
	theirs := marked.DeepCopy()
	theirs.Name = "foo-theirs"
	c.slices = []*discoveryv1.EndpointSlice{marked, theirs}
	c.Members[0].Slices = nil
	c.settle(t)
	if len(c.slices) != 0 {
		t.Errorf("slices %v", c.slices)
	}
}
