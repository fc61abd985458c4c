package apply

import (
	"errors"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// A slice moves only if its new name is free, or if the slice of an earlier attempt has the name.
// With any other slice under that name, a move would lose the endpoints of a cluster that does not
// answer: this slice can be their only copy.
func TestMoveIntoATakenName(t *testing.T) {
	for _, test := range []struct {
		name string
		// taken returns the slice that has the new name, or nil.
		taken   func(moved *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice
		refused bool
	}{
		{"the name is free", func(*discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice { return nil }, false},
		{"an earlier attempt made it", func(moved *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice { return moved }, false},
		{"an earlier attempt made it, and it lost its endpoints", func(moved *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
			moved.Endpoints = nil
			return moved
		}, false},
		{"a tenant has the name", func(moved *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
			return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: moved.Namespace, Name: moved.Name}, AddressType: discoveryv1.AddressTypeIPv4}
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk(t)
			slice := &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: d.imp.Namespace, Name: "foo.east.ipv4-1",
					Labels: map[string]string{discoveryv1.LabelManagedBy: mcs.ControllerName, discoveryv1.LabelServiceName: "derived-foo", mcsv1beta1.LabelServiceName: "foo"},
					OwnerReferences: []metav1.OwnerReference{{
						APIVersion: mcsv1beta1.GroupVersion.String(), Kind: "ServiceImport", Name: d.imp.Name, UID: d.imp.UID, Controller: new(true),
					}},
				},
				AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}}},
			}
			if err := d.Create(t.Context(), slice); err != nil {
				t.Fatal(err)
			}
			move := diff.Move{Slice: slice, Name: "foo.east.ipv4-2", Service: "chosen"}
			if taken := test.taken(move.Moved(slice)); taken != nil {
				if err := d.Create(t.Context(), taken); err != nil {
					t.Fatal(err)
				}
			}
			err := d.move(t.Context(), observed.State{Import: d.imp, Namespace: d.imp.Namespace, Name: "foo"}, move)
			if refused := errors.Is(err, errForeignSlice); refused != test.refused || !refused && err != nil {
				t.Fatalf("the move: %v", err)
			}
			var old, moved discoveryv1.EndpointSlice
			err = d.Get(t.Context(), client.ObjectKeyFromObject(slice), &old)
			if test.refused != (err == nil) || err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("the old slice: %v", err)
			}
			if err := d.Get(t.Context(), client.ObjectKey{Namespace: slice.Namespace, Name: move.Name}, &moved); err != nil {
				t.Fatal(err)
			}
			if got := len(moved.Endpoints) == 1 && moved.Labels[discoveryv1.LabelServiceName] == "chosen"; got == test.refused {
				t.Errorf("the slice of the new name has %v, %v", moved.Labels, moved.Endpoints)
			}
		})
	}
}
