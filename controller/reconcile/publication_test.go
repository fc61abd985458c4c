package reconcile

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Descriptions are announced when each export is settled: peers would take an export without one for an
// export without its Service.
func TestAnnouncedAfterTheLastExport(t *testing.T) {
	of := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: name} }
	var exports []mcsv1beta1.ServiceExport
	for _, name := range []string{"a", "b"} {
		exports = append(exports, mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
	}
	var all memories
	p := publication{exports: stored{exports: exports}, settled: all.settled}
	for i, step := range []struct {
		name          string
		settled, want bool
	}{
		{"a", false, false}, {"a", true, false}, {"b", false, false}, {"b", true, true}, {"a", false, false}, {"other", true, false}, {"a", true, true},
	} {
		all.of(of(step.name)).settled.Store(step.settled)
		if got, err := p.complete(t.Context()); err != nil || got != step.want {
			t.Errorf("step %d: complete is %t, want %t: %v", i, got, step.want, err)
		}
	}
}
