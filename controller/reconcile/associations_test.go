package reconcile

import (
	"context"
	"fmt"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// A slice that loses its label is a leak, and one that was deleted with its label is none.
func TestAssociations(t *testing.T) {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "forged", UID: "1", Labels: map[string]string{discoveryv1.LabelServiceName: "derived-foo", mcsv1beta1.LabelServiceName: "foo"}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}}
	empty := slice.DeepCopy()
	empty.Endpoints = nil
	digest.Keep(empty)
	other := slice.DeepCopy()
	other.AddressType, other.UID = discoveryv1.AddressTypeIPv6, "2"
	for _, test := range []struct {
		name string
		do   func(a *associations)
		want int
	}{
		{"the label is gone", func(a *associations) { a.lost(slice, true, true) }, 1},
		{"the slice is gone, and its last state is not known", func(a *associations) { a.lost(slice, false, true) }, 1},
		{"an empty slice loses the label", func(a *associations) { a.lost(empty, true, true) }, 0},
		{"the label is gone, and back", func(a *associations) { a.lost(slice, true, true); a.gained(slice) }, 0},
		{"one of no derived Service is gone", func(a *associations) { a.lost(slice, false, false) }, 0},
		{"one of no derived Service yet loses its label", func(a *associations) { a.lost(slice, true, false) }, 1},
		{"one that is known already", func(a *associations) { a.lost(slice, true, false); a.lost(slice, true, true) }, 1},
		{"another slice of its name, of the other family, has the label", func(a *associations) { a.lost(slice, true, true); a.gained(other) }, 1},
		{"both families lose it", func(a *associations) { a.lost(slice, true, true); a.lost(other, true, true) }, 2},
	} {
		var a associations
		test.do(&a)
		service := types.NamespacedName{Namespace: "shop", Name: "derived-foo"}
		leaks := a.of(service)
		if len(leaks) != test.want {
			t.Errorf("%s: leaks %v", test.name, leaks)
		}
		for _, leak := range leaks {
			a.repaired("shop", leak)
		}
		if len(a.leaks)+len(a.counts) > 0 {
			t.Errorf("%s: not forgotten: %v %v", test.name, a.leaks, a.counts)
		}
	}
}

// Any user can write slices with labels of Services that do not exist. Such leaks are recorded up
// to a limit. Leaks of derived Services are recorded beyond it.
func TestEarlyLeaksHaveALimit(t *testing.T) {
	var a associations
	slice := func(i int) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "flood", UID: types.UID(fmt.Sprint(i)),
				Labels: map[string]string{discoveryv1.LabelServiceName: fmt.Sprint("derived-", i)}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
		}
	}
	for i := range 2 * maxLeaks {
		a.lost(slice(i), true, false)
	}
	if len(a.leaks) != maxLeaks {
		t.Errorf("%d are remembered", len(a.leaks))
	}
	const late = 3 * maxLeaks
	a.lost(slice(late), false, true)
	if len(a.of(serviceOf(slice(late)))) != 1 {
		t.Error("one of a derived Service is not")
	}
	a.orphaned(serviceOf(slice(late)))
	a.orphaned(serviceOf(slice(0)))
	if len(a.of(serviceOf(slice(late)))) != 0 || len(a.of(serviceOf(slice(0)))) != 1 {
		t.Error("an import is gone: what was seen is to be remembered, and what may have been an ordinary deletion is not")
	}
}

// derivedOfOurs is a cache with an import of the controller, whose derived Service every Service is.
type derivedOfOurs struct{ derived }

func (derivedOfOurs) Get(_ context.Context, _ types.NamespacedName, object client.Object, _ ...client.GetOption) error {
	object.SetLabels(map[string]string{mcs.LabelManagedBy: mcs.ControllerName})
	return nil
}

// The events of a cache show which slices kube-proxy can still use.
func TestChangesOfSlices(t *testing.T) {
	labelled := func(uid types.UID, service string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s", UID: uid, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
		}
	}
	for what, c := range map[string]struct {
		before, after *discoveryv1.EndpointSlice
		seen          bool
		leaks         int
	}{
		"new":                        {nil, labelled("1", "derived-foo"), true, 0},
		"replaced":                   {labelled("1", "derived-foo"), labelled("2", "derived-foo"), true, 0},
		"deleted with its label":     {labelled("1", "derived-foo"), nil, true, 0},
		"deleted while nobody saw":   {labelled("1", "derived-foo"), nil, false, 1},
		"without its label":          {labelled("1", "derived-foo"), labelled("1", ""), true, 1},
		"with another label":         {labelled("1", "derived-foo"), labelled("1", "other"), true, 1},
		"replaced by one without it": {labelled("1", "derived-foo"), labelled("2", ""), true, 1},
	} {
		r := &serviceReconciler{cache: derivedOfOurs{}}
		r.changed(t.Context(), c.before, c.after, c.seen)
		if got := r.associations.of(types.NamespacedName{Namespace: "shop", Name: "derived-foo"}); len(got) != c.leaks {
			t.Errorf("%s: leaks %v, want %d", what, got, c.leaks)
		}
	}
}
