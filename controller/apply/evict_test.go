package apply

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// door is a desk with the derived Service of an import that the controller owns, and the recorded
// events.
type door struct {
	desk
	svc  *corev1.Service
	told *events.FakeRecorder
}

func newDoor(t *testing.T) door {
	t.Helper()
	d := newDesk(t)
	d.imp.Labels = map[string]string{mcs.LabelManagedBy: mcs.ControllerName}
	if err := d.Update(t.Context(), d.imp); err != nil {
		t.Fatal(err)
	}
	told := events.NewFakeRecorder(10)
	d.Events = told
	return door{d, d.made(t), told}
}

// led returns a slice that a user has created and associated with the derived Service.
func (d door) led(t *testing.T, edits ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: d.imp.Namespace, Name: "spy", Labels: map[string]string{discoveryv1.LabelServiceName: d.svc.Name}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.66.0.1"}}},
	}
	for _, edit := range edits {
		edit(slice)
	}
	d.create(t, slice)
	return slice
}

func (d door) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := d.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// replace deletes an object and creates another one in its place.
func (d door) replace(t *testing.T, old, by client.Object) {
	t.Helper()
	if err := d.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	by.SetResourceVersion("")
	by.SetUID("")
	d.create(t, by)
}

// evict applies a plan that deletes a slice.
func (d door) evict(t *testing.T, slice *discoveryv1.EndpointSlice) error {
	t.Helper()
	return d.do(t.Context(), observed.State{Import: d.imp, Service: d.svc}, diff.Changes{Evict: []*discoveryv1.EndpointSlice{slice}})
}

// there reports whether an object exists.
func (d door) there(t *testing.T, object client.Object) bool {
	t.Helper()
	err := d.Get(t.Context(), client.ObjectKeyFromObject(object), object)
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

func ownedByA(kind, name string) func(*discoveryv1.EndpointSlice) {
	return func(slice *discoveryv1.EndpointSlice) {
		slice.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: name, UID: "some"}}
	}
}

// A slice that belongs to the derived Service is deleted, whatever owner it names and even if it
// has a finalizer. An event reports the deletion.
func TestEvictedSlicesGo(t *testing.T) {
	held := func(slice *discoveryv1.EndpointSlice) { slice.Finalizers = []string{"example.org/held"} }
	for name, edit := range map[string]func(*discoveryv1.EndpointSlice){
		"bare": func(*discoveryv1.EndpointSlice) {}, "held": held,
		"of a Service": ownedByA("Service", "his"), "of a former Service": ownedByA("Service", "derived-foo"),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoor(t)
			slice := d.led(t, edit)
			if err := d.evict(t, slice); err != nil || d.there(t, slice) {
				t.Errorf("it is there: %v", err)
			}
			if len(d.told.Events) != 1 {
				t.Errorf("%d events", len(d.told.Events))
			}
		})
	}
}

// A leak is not repaired while a slice of the other family has its name: an empty slice cannot have
// the same name.
func TestALeakIsNotHealedWhileItsNameIsTaken(t *testing.T) {
	d := newDoor(t)
	var repaired []observed.Leak
	d.Repaired = func(_ string, leak observed.Leak) { repaired = append(repaired, leak) }
	taken := d.led(t, func(*discoveryv1.EndpointSlice) {})
	leak := observed.Leak{Slice: taken.Name, Service: d.svc.Name, Type: discoveryv1.AddressTypeIPv6}
	repair := func() error {
		return d.do(t.Context(), observed.State{Namespace: d.imp.Namespace, Name: d.imp.Name, Import: d.imp, Service: d.svc}, diff.Changes{Repair: []observed.Leak{leak}})
	}
	if err := repair(); !errors.Is(err, errOtherType) || len(repaired) > 0 || !d.there(t, taken) {
		t.Errorf("repaired %v: %v", repaired, err)
	}
	if err := d.Delete(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	if err := repair(); err != nil || len(repaired) != 1 || d.there(t, taken) {
		t.Errorf("repaired %v: %v", repaired, err)
	}
}

// Caches can be stale: the slice on the API server can by now belong to a user. It stays, and no
// event is emitted.
func TestEvictionAsksTheAPIServer(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*testing.T, door, *discoveryv1.EndpointSlice)
		want   error
	}{
		"the slice leads elsewhere": {func(t *testing.T, d door, slice *discoveryv1.EndpointSlice) {
			slice.Labels[discoveryv1.LabelServiceName] = "his"
			if err := d.Update(t.Context(), slice.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}, nil},
		"the slice is another": {func(t *testing.T, d door, slice *discoveryv1.EndpointSlice) {
			d.replace(t, slice, slice.DeepCopy())
		}, nil},
		"the Service is a user's": {func(t *testing.T, d door, _ *discoveryv1.EndpointSlice) {
			his := d.svc.DeepCopy()
			his.Labels, his.OwnerReferences = nil, nil
			d.replace(t, d.svc, his)
		}, ErrStale},
		"the Service has lost our mark": {func(t *testing.T, d door, _ *discoveryv1.EndpointSlice) {
			his := d.svc.DeepCopy()
			his.Labels = nil
			if err := d.Update(t.Context(), his); err != nil {
				t.Fatal(err)
			}
		}, ErrStale},
		"the Service is made anew": {func(t *testing.T, d door, _ *discoveryv1.EndpointSlice) {
			d.replace(t, d.svc, d.svc.DeepCopy())
		}, ErrStale},
		"the Service is gone": {func(t *testing.T, d door, _ *discoveryv1.EndpointSlice) {
			if err := d.Delete(t.Context(), d.svc.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}, ErrStale},
		"the import is a user's": {func(t *testing.T, d door, _ *discoveryv1.EndpointSlice) {
			his := new(mcsv1beta1.ServiceImport)
			if err := d.Get(t.Context(), client.ObjectKeyFromObject(d.imp), his); err != nil {
				t.Fatal(err)
			}
			his.Labels = nil
			if err := d.Update(t.Context(), his); err != nil {
				t.Fatal(err)
			}
		}, ErrStale},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoor(t)
			slice := d.led(t)
			seen := slice.DeepCopy()
			test.change(t, d, slice)
			if err := d.evict(t, seen); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if !d.there(t, slice) || slice.DeletionTimestamp != nil {
				t.Error("it was deleted")
			}
			if len(d.told.Events) > 0 {
				t.Errorf("told: %s", <-d.told.Events)
			}
		})
	}
}

// The Endpoints that a slice mirrors are deleted with it if they are the derived Service's, but not
// Endpoints of another name or Endpoints that were created in the meantime.
func TestEvictionTakesTheSource(t *testing.T) {
	for _, test := range []struct {
		what, name, manager string
		anew, want          bool
	}{
		{"of our Service", "derived-foo", desired.SliceMirroring, false, false},
		{"of another name", "other", desired.SliceMirroring, false, true},
		{"made meanwhile", "derived-foo", desired.SliceMirroring, true, true},
		{"that nothing mirrors", "derived-foo", "me", false, true},
	} {
		t.Run(test.what, func(t *testing.T) {
			d := newDoor(t)
			source := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: d.imp.Namespace, Name: test.name}} //nolint:staticcheck // what this is about
			d.create(t, source)
			slice := d.led(t, ownedByA("Endpoints", test.name), func(slice *discoveryv1.EndpointSlice) {
				slice.Labels[discoveryv1.LabelManagedBy] = test.manager
				slice.OwnerReferences[0].UID = source.UID
			})
			if test.anew {
				d.replace(t, source, source.DeepCopy())
			}
			if err := d.evict(t, slice); err != nil {
				t.Error(err)
			}
			if d.there(t, slice) {
				t.Error("the slice is there")
			}
			if got := d.there(t, source); got != test.want {
				t.Errorf("the Endpoints are there: %v, want %v", got, test.want)
			}
		})
	}
}

// A conflict with a user who edits other slices does not block an eviction, and an eviction that
// fails does not block other writes.
func TestEvictionsBlockNoOtherWrites(t *testing.T) {
	d := newDoor(t)
	slice, edited := d.led(t), d.led(t, func(slice *discoveryv1.EndpointSlice) { slice.Name, slice.Labels = "edited", ours() })
	stale := edited.DeepCopy()
	stale.ResourceVersion = "1"
	changes := diff.Changes{
		Evict: []*discoveryv1.EndpointSlice{slice}, UpdateSlices: []diff.Edit[*discoveryv1.EndpointSlice]{{Old: stale, New: stale.DeepCopy()}},
	}
	changes.UpdateSlices[0].New.Labels["some"] = "label"
	st := observed.State{Import: d.imp, Service: d.svc}
	if all, aside := d.Do(t.Context(), st, changes); !errors.Is(all.Err(), ErrStale) || aside != nil || d.there(t, slice) {
		t.Errorf("got %v, want ErrStale of the other write, and no slice", all)
	}

	slice = d.led(t)
	d.Writer.Client = failing{d.Writer.Client}
	changes.Evict, changes.UpdateSlices = []*discoveryv1.EndpointSlice{slice}, []diff.Edit[*discoveryv1.EndpointSlice]{{Old: edited, New: edited.DeepCopy()}}
	changes.UpdateSlices[0].New.Labels["some"] = "label"
	if all, aside := d.Do(t.Context(), st, changes); !errors.Is(aside, errRefused) || all.Err() != nil {
		t.Errorf("got %v, want %v, of the eviction alone", aside, errRefused)
	}
	if !d.there(t, edited) || edited.Labels["some"] != "label" {
		t.Error("the other write was not made")
	}
	if len(d.told.Events) != 1 {
		t.Errorf("%d events for one slice that went", len(d.told.Events))
	}
}

func ours() map[string]string {
	return map[string]string{discoveryv1.LabelManagedBy: mcs.ControllerName}
}

var errRefused = errors.New("refused")

// failing refuses every deletion.
type failing struct{ client.Writer }

func (failing) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errRefused
}

// A slice of the controller that has lost the import's name is updated, not deleted and created
// again: clients would lose its endpoints in the meantime.
func TestOwnSliceIsTakenBackNotEvicted(t *testing.T) {
	d := newDoor(t)
	owned := []metav1.OwnerReference{{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: "ServiceImport", Name: "foo", UID: d.imp.UID}}
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.imp.Namespace, Name: "foo.c2.ipv4-0123456789", OwnerReferences: owned, Labels: map[string]string{
			mcsv1beta1.LabelServiceName: "foo", discoveryv1.LabelServiceName: d.svc.Name, discoveryv1.LabelManagedBy: mcs.ControllerName}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	slice := d.led(t, func(slice *discoveryv1.EndpointSlice) { slice.Name, slice.OwnerReferences = want.Name, owned })
	uid := slice.UID
	if err := d.do(t.Context(), observed.State{Import: d.imp, Service: d.svc}, diff.Changes{
		Evict: []*discoveryv1.EndpointSlice{slice.DeepCopy()}, CreateSlices: []*discoveryv1.EndpointSlice{want},
	}); err != nil {
		t.Fatal(err)
	}
	if !d.there(t, slice) || slice.UID != uid || slice.Labels[mcsv1beta1.LabelServiceName] != "foo" {
		t.Errorf("it is %+v", slice.ObjectMeta)
	}
}
