package reconcile

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/diff"
)

// Descriptions are announced when each export is settled: peers would take an export without one for an
// export without its Service.
func TestAnnouncedAfterTheLastExport(t *testing.T) {
	of := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: name} }
	var exports []mcsv1beta1.ServiceExport
	for _, name := range []string{"a", "b"} {
		exports = append(exports, mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
	}
	p := publication{exports: stored{exports: exports}}
	busy := diff.Changes{CreateImport: &mcsv1beta1.ServiceImport{}}
	for i, step := range []struct {
		name    string
		changes diff.Changes
		want    bool
	}{
		{"a", busy, false}, {"a", diff.Changes{}, false}, {"b", busy, false}, {"b", diff.Changes{}, true}, {"a", busy, false}, {"other", diff.Changes{}, false}, {"a", diff.Changes{}, true},
	} {
		p.settle(of(step.name), step.changes)
		if got, err := p.complete(t.Context()); err != nil || got != step.want {
			t.Errorf("step %d: complete is %t, want %t: %v", i, got, step.want, err)
		}
	}
}
