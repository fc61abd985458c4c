package reconcile

import (
	"errors"
	"fmt"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/digest"
)

// A slice that loses its label in any way is a leak, except after a successful deletion by the
// controller. The answer to the request and the event can arrive in either order.
func TestAssociations(t *testing.T) {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "forged", UID: "1", Labels: map[string]string{discoveryv1.LabelServiceName: "derived-foo", mcsv1beta1.LabelServiceName: "foo"}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}}
	empty := slice.DeepCopy()
	empty.Endpoints = nil
	digest.Keep(empty)
	other := slice.DeepCopy()
	other.AddressType, other.UID = discoveryv1.AddressTypeIPv6, "2"
	unlabelled := slice.DeepCopy()
	unlabelled.Labels = nil
	refused := errors.New("it has changed")
	for _, test := range []struct {
		name string
		do   func(a *associations)
		want int
	}{
		{"the label is gone", func(a *associations) { a.lost(slice, false, true) }, 1},
		{"the slice is gone", func(a *associations) { a.lost(slice, true, true) }, 1},
		{"an empty slice loses the label", func(a *associations) { a.lost(empty, false, true) }, 0},
		{"we delete an empty slice, and hear of it later", func(a *associations) { a.weDelete(empty)(nil); a.lost(empty, true, true) }, 0},
		{"the label is gone, and back", func(a *associations) { a.lost(slice, false, true); a.gained(slice) }, 0},
		{"we delete it, and hear of it later", func(a *associations) { a.weDelete(slice)(nil); a.lost(slice, true, true) }, 0},
		{"we delete it, and hear of it before", func(a *associations) { done := a.weDelete(slice); a.lost(slice, true, true); done(nil) }, 0},
		{"we delete one that has no label", func(a *associations) { a.weDelete(unlabelled)(nil) }, 0},
		{"one of no derived Service is gone", func(a *associations) { a.lost(slice, true, false) }, 0},
		{"we delete one of no derived Service", func(a *associations) { a.weDelete(slice)(nil); a.lost(slice, true, false) }, 0},
		{"one of no derived Service yet loses its label", func(a *associations) { a.lost(slice, false, false) }, 1},
		{"one that is known already", func(a *associations) { a.lost(slice, false, false); a.lost(slice, false, true) }, 1},
		{"another slice of its name, of the other family, has the label", func(a *associations) { a.lost(slice, false, true); a.gained(other) }, 1},
		{"both families lose it", func(a *associations) { a.lost(slice, false, true); a.lost(other, false, true) }, 2},
		{"we delete it too late", func(a *associations) { done := a.weDelete(slice); a.lost(slice, true, true); done(refused) }, 1},
		{"we delete it too late, and hear of it later", func(a *associations) { a.weDelete(slice)(refused); a.lost(slice, true, true) }, 1},
		{"it loses the label while we delete it", func(a *associations) { done := a.weDelete(slice); a.lost(slice, false, true); done(refused) }, 1},
	} {
		var a associations
		test.do(&a)
		service := types.NamespacedName{Namespace: "shop", Name: "derived-foo"}
		leaks := a.of(service)
		if len(leaks) != test.want || len(a.deleting) > 0 {
			t.Errorf("%s: leaks %v, deletions that are waited for %v", test.name, leaks, a.deleting)
		}
		for _, leak := range leaks {
			a.healed("shop", leak)
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
		a.lost(slice(i), false, false)
	}
	if len(a.leaks) != maxLeaks {
		t.Errorf("%d are remembered", len(a.leaks))
	}
	const late = 3 * maxLeaks
	a.lost(slice(late), true, true)
	if len(a.of(serviceOf(slice(late)))) != 1 {
		t.Error("one of a derived Service is not")
	}
	a.orphaned(serviceOf(slice(late)))
	a.orphaned(serviceOf(slice(0)))
	if len(a.of(serviceOf(slice(late)))) != 0 || len(a.of(serviceOf(slice(0)))) != 1 {
		t.Error("an import is gone: what was seen is to be remembered, and what may have been an ordinary deletion is not")
	}
}

// If the slices of this cluster's own Services are also in the cache, their deletions are tracked
// too.
func TestADeletionOfASliceOfNoImportIsFollowed(t *testing.T) {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own", UID: "1",
		Labels: map[string]string{discoveryv1.LabelServiceName: "derived-foo"}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}}
	for all, leaks := range map[bool]int{true: 0, false: 1} {
		a := associations{all: all}
		a.weDelete(slice)(nil)
		a.lost(slice, true, true)
		if got := a.of(serviceOf(slice)); len(got) != leaks || len(a.deleting) > 0 {
			t.Errorf("all are in the cache: %v: leaks %v, deletions that are waited for %v", all, got, a.deleting)
		}
	}
}

// The event of a deletion by the controller can be missing if another slice with the name follows
// at once. Then no record of the deletion is left.
func TestReplacedSlices(t *testing.T) {
	r := &serviceReconciler{associations: associations{all: true}}
	slice := func(uid types.UID) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s", UID: uid, Labels: map[string]string{discoveryv1.LabelServiceName: "derived-foo"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
		}
	}
	first, second := slice("1"), slice("2")
	done := r.associations.weDelete(first)
	r.changed(t.Context(), first, second)
	done(nil)
	if len(r.associations.deleting)+len(r.associations.leaks) > 0 {
		t.Errorf("remembered: %v, %v", r.associations.deleting, r.associations.leaks)
	}
}
