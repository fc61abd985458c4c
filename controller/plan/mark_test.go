package plan

import (
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/observed"
)

// A user removed the mark of a slice that is no longer needed. The slice would otherwise keep
// endpoints that are gone: found with seed 456831125 of test/rules' random histories. A slice
// with another name is forged, and is deleted too.
func TestSliceWithoutItsMarkIsDeletedToo(t *testing.T) {
	c := newName("c2", publishing(exporting("c1", 0, 80, "10.9.1.1")))
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

// TestLeaksAreHealed is a regression test: what kube-proxy keeps of slices that have lost the label
// is repaired, with and without a clusterset, but not if a slice of the controller has the name and
// the label.
func TestLeaksAreHealed(t *testing.T) {
	c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"))
	c.settle(t)
	ours := c.slices[0].Name
	lost := observed.Leak{Slice: "theirs", Service: "derived-foo", Type: discoveryv1.AddressTypeIPv4}
	for what, clusterset := range map[string]*observed.Clusterset{"in a clusterset": &c.Clusterset, "in none": nil} {
		st := c.state()
		st.Clusterset = clusterset
		otherFamily := observed.Leak{Slice: lost.Slice, Service: lost.Service, Type: discoveryv1.AddressTypeIPv6}
		st.Leaks = []observed.Leak{{Slice: ours, Service: "derived-foo", Type: discoveryv1.AddressTypeIPv4}, lost, otherFamily}
		back := theirs(lost.Slice, discoveryv1.LabelServiceName, lost.Service, mcsv1beta1.LabelServiceName, "foo")
		back.AddressType = otherFamily.Type
		st.Slices = append(st.Slices, back)
		if changes := Plan(st); !slices.Equal(changes.Repair, []observed.Leak{lost}) {
			t.Errorf("%s: repairs %v", what, changes.Repair)
		}
	}
	// The controller also owns the derived Service of an import that others made.
	st := c.state()
	st.Import = st.Import.DeepCopy()
	handOver(st.Import)
	st.Leaks = []observed.Leak{lost}
	if changes := Plan(st); !slices.Equal(changes.Repair, []observed.Leak{lost}) {
		t.Errorf("of an import of others: repairs %v", changes.Repair)
	}
}
