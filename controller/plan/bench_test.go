package plan

import (
	"fmt"
	"math"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/merge"
)

// BenchmarkPlan plans a name of some clusters when one slice of another cluster was read anew, and nothing is missing.
func BenchmarkPlan(b *testing.B) {
	for _, size := range []struct{ clusters, slices, endpoints int }{{10, 10, 1}, {20, 1, 100}, {100, 1, 100}} {
		b.Run(fmt.Sprintf("%dx%dx%d", size.clusters, size.slices, size.endpoints), func(b *testing.B) {
			c, last := exportedBy(size.clusters, size.slices, size.endpoints)
			b.ReportAllocs()
			for b.Loop() {
				last.Slices[0] = last.Slices[0].DeepCopy()
				if changes := c.planAgain(); !changes.Empty() {
					b.Fatal("something is missing")
				}
			}
		})
	}
}

// exportedBy returns a name of which nothing is missing, and the last of its clusters.
func exportedBy(clusters, slices, endpoints int) (*oneName, *merge.Member) {
	var members []merge.Member
	for i := range clusters {
		var addresses []string
		for j := range slices {
			addresses = append(addresses, fmt.Sprintf("10.%d.%d.1", i, j))
		}
		m := exporting(fmt.Sprintf("c%d", i), i, 80, addresses...)
		for j, slice := range m.Slices {
			for k := range endpoints - 1 {
				slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
					Addresses: []string{fmt.Sprintf("10.%d.%d.%d", i, j, k+2)}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}, Zone: new("eu-1"),
				})
			}
		}
		if i > 0 {
			m = mirrored(m)
		}
		members = append(members, m)
	}
	c := newName("c0", members...)
	for changes := c.planAgain(); !changes.Empty(); changes = c.planAgain() {
		c.write(changes)
	}
	for _, slice := range c.slices {
		digest.Keep(slice) // as in the cache
	}
	return c, &members[clusters-1]
}

// planAgain plans with what the last plan left.
func (c *oneName) planAgain() diff.Changes {
	st := c.state()
	st.Copies = c.copies
	changes := Plan(st)
	c.copies = changes.Copies
	return changes
}

// TestUnchangedSlicesCostNothing: what a plan takes does not depend on the endpoints of slices that have not changed. The least of several
// counts is compared: sync.Pool drops objects by chance with the race detector, and all of them when memory is collected.
func TestUnchangedSlicesCostNothing(t *testing.T) {
	allocations := func(endpoints int) float64 {
		c, _ := exportedBy(10, 1, endpoints)
		c.Members[0].Slices[0].Endpoints = c.Members[0].Slices[0].Endpoints[:1] // this cluster's own are copied
		c.settle(t)
		least := math.Inf(1)
		for range 10 {
			least = min(least, testing.AllocsPerRun(20, func() {
				if changes := c.planAgain(); !changes.Empty() {
					t.Errorf("it plans %+v", changes)
				}
			}))
		}
		return least
	}
	few, many := allocations(1), allocations(90)
	if many > few+10 {
		t.Errorf("a plan takes %v allocations with an endpoint in each slice, and %v with 90", few, many)
	}
}
