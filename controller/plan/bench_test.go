package plan

import (
	"fmt"
	"testing"

	"github.com/clusterset-dns/multicluster/controller/merge"
)

// BenchmarkPlan plans a name that ten clusters export with ten endpoints each, when nothing is missing.
func BenchmarkPlan(b *testing.B) {
	var members []merge.Member
	for i := range 10 {
		var addresses []string
		for j := range 10 {
			addresses = append(addresses, fmt.Sprintf("10.%d.0.%d", i, j+1))
		}
		m := exporting(fmt.Sprintf("c%d", i), i, 80, addresses...)
		if i > 0 {
			m = mirrored(m)
		}
		members = append(members, m)
	}
	c := newName("c0", members...)
	for {
		changes := Plan(c.state())
		if changes.Empty() {
			break
		}
		c.write(changes)
	}
	b.ReportAllocs()
	for b.Loop() {
		if changes := Plan(c.state()); !changes.Empty() {
			b.Fatal("something is missing")
		}
	}
}
