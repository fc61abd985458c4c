package apply

import (
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

// A slice is split into two, of which the API server refuses one. Its endpoints stay in the old slice until both are there.
func TestEndpointsStayUntilTheirNewSliceIsThere(t *testing.T) {
	d := newDesk(t)
	slice := func(name string, addresses ...string) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: d.imp.Namespace, Name: name,
				Labels: map[string]string{discoveryv1.LabelManagedBy: mcs.ControllerName, mcsv1beta1.LabelServiceName: "foo", mcsv1beta1.LabelSourceCluster: "east"},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: mcsv1beta1.GroupVersion.String(), Kind: "ServiceImport", Name: d.imp.Name, UID: d.imp.UID, Controller: new(true),
				}},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
		}
		for _, address := range addresses {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
		}
		return s
	}
	split, other, third := slice("foo.east.ipv4-split", "10.1.0.1", "10.1.0.2"), slice("foo.east.ipv4-other", "10.1.0.9"), slice("foo.east.ipv4-third", "10.1.0.3")
	for _, s := range []*discoveryv1.EndpointSlice{split, other, third} {
		if err := d.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	refused := slice("foo.east.ipv4-second", "10.1.0.2", "no address")
	for _, step := range []struct {
		what        string
		changes     diff.Changes
		stays, gone *discoveryv1.EndpointSlice
	}{
		{"it is refused", diff.Changes{
			CreateSlices: []*discoveryv1.EndpointSlice{slice("foo.east.ipv4-first", "10.1.0.1"), refused}, DeleteSlices: []*discoveryv1.EndpointSlice{split, other},
		}, split, other},
		{"it is not tried again yet", diff.Changes{RefusedSlices: []*discoveryv1.EndpointSlice{refused}, DeleteSlices: []*discoveryv1.EndpointSlice{split}}, split, nil},
		{"the slice that takes over cannot be changed", diff.Changes{
			UpdateSlices: []diff.Edit[*discoveryv1.EndpointSlice]{{Old: third, New: slice("foo.east.ipv4-third", "10.1.0.2", "no address")}}, DeleteSlices: []*discoveryv1.EndpointSlice{split},
		}, split, nil},
		{"both are there", diff.Changes{DeleteSlices: []*discoveryv1.EndpointSlice{split}}, nil, split},
	} {
		t.Log(step.what)
		if err := d.do(t.Context(), observed.State{Import: d.imp, Namespace: d.imp.Namespace, Name: "foo"}, step.changes); err != nil && step.changes.CreateSlices == nil && step.changes.UpdateSlices == nil {
			t.Fatal(err)
		}
		for s, there := range map[*discoveryv1.EndpointSlice]bool{step.stays: true, step.gone: false} {
			if s == nil {
				continue
			}
			if err := d.Get(t.Context(), client.ObjectKeyFromObject(s), new(discoveryv1.EndpointSlice)); there != (err == nil) || err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("%s is there: %t, want %t (%v)", s.Name, err == nil, there, err)
			}
		}
	}
}
