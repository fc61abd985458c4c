package reconcile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/observed"
)

// A plan waits for the caches to show what was written; not for ever, and no other name's does.
func TestExpected(t *testing.T) {
	meta := func(name, version string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: version}
	}
	imp := func(version string) *mcsv1beta1.ServiceImport {
		return &mcsv1beta1.ServiceImport{ObjectMeta: meta("cart", version)}
	}
	export := func(version string) *mcsv1beta1.ServiceExport {
		return &mcsv1beta1.ServiceExport{ObjectMeta: meta("cart", version)}
	}
	svc := func(name, version string) *corev1.Service { return &corev1.Service{ObjectMeta: meta(name, version)} }
	slice := func(name, version string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: meta(name, version)}
	}
	type write struct {
		object client.Object
		before string
	}
	tests := []struct {
		name   string
		writes []write
		have   observed.State
		want   bool
	}{
		{name: "nothing was written", have: observed.State{Import: imp("1")}},
		{name: "an import that is made", writes: []write{{imp("5"), ""}}, want: true},
		{name: "an import that was made", writes: []write{{imp("5"), ""}}, have: observed.State{Import: imp("5")}},
		{name: "an export of the same name is no import", writes: []write{{imp("5"), ""}}, have: observed.State{Clusterset: &observed.Clusterset{Export: export("1")}}, want: true},
		{name: "an import as it was", writes: []write{{imp("5"), "4"}}, have: observed.State{Import: imp("4")}, want: true},
		{name: "an import as somebody else left it", writes: []write{{imp("5"), "4"}}, have: observed.State{Import: imp("6")}},
		{name: "an import that somebody deleted", writes: []write{{imp("5"), "4"}}},
		{name: "a Service that was made", writes: []write{{svc("derived-cart", "5"), ""}}, have: observed.State{Service: svc("derived-cart", "5")}},
		{name: "a Service under another name", writes: []write{{svc("other", "5"), "4"}}, have: observed.State{Owned: []*corev1.Service{svc("other", "4")}}, want: true},
		{
			name: "one of two slices", writes: []write{{slice("a", "5"), ""}, {slice("b", "6"), ""}},
			have: observed.State{Slices: []*discoveryv1.EndpointSlice{slice("b", "6")}}, want: true,
		},
		{
			name: "both slices", writes: []write{{slice("a", "5"), ""}, {slice("b", "6"), ""}},
			have: observed.State{Slices: []*discoveryv1.EndpointSlice{slice("b", "6"), slice("a", "5")}},
		},
		{name: "an export as it was", writes: []write{{export("5"), "4"}}, have: observed.State{Clusterset: &observed.Clusterset{Export: export("4")}}, want: true},
		{
			name: "an object that was written twice, at the first", writes: []write{{imp("5"), "4"}, {imp("6"), "5"}},
			have: observed.State{Import: imp("5")}, want: true,
		},
	}
	cart, now := types.NamespacedName{Namespace: "shop", Name: "cart"}, time.Now()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var e expected
			for _, w := range test.writes {
				e.wrote(cart, w.object, w.before, now)
			}
			if e.missing(types.NamespacedName{Namespace: "shop", Name: "other"}, test.have, now) {
				t.Error("another name waits")
			}
			if got := e.missing(cart, test.have, now.Add(expectFor)); got != test.want {
				t.Errorf("missing: %t, want %t", got, test.want)
			}
			if e.missing(cart, test.have, now.Add(expectFor+1)) {
				t.Error("it waits for ever")
			}
			if len(e.by) > 0 {
				t.Error("it is kept for ever")
			}
		})
	}
}
