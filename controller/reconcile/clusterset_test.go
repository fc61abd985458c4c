package reconcile

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/compact"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// onlyImport is a cache with one import.
type onlyImport struct {
	client.Reader
	name types.NamespacedName
}

func (c onlyImport) Get(_ context.Context, name types.NamespacedName, _ client.Object, _ ...client.GetOption) error {
	if name == c.name {
		return nil
	}
	return errors.NewNotFound(schema.GroupResource{}, name.Name)
}

// List returns nothing: no name in these tests is a derived Service.
func (onlyImport) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// Started names come before new names, and existing imports stay up to date meanwhile.
func TestBegunNamesComeFirst(t *testing.T) {
	queue := priorityqueue.New[ctrl.Request](t.Name())
	defer queue.ShutDown()
	source := &nameSource{ctx: t.Context(), cache: onlyImport{name: types.NamespacedName{Name: "there"}}}
	source.changed(types.NamespacedName{Name: "new, told early"})
	if err := source.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	source.changed(types.NamespacedName{Name: "new, told later"})
	source.changed(types.NamespacedName{Name: "there"})
	queue.Add(request("", "the echo of a write"))
	var order []string
	for range 4 {
		item, _ := queue.Get()
		order = append(order, item.Name)
		queue.Done(item)
	}
	slices.Sort(order[:2])
	slices.Sort(order[2:])
	if want := []string{"the echo of a write", "there", "new, told early", "new, told later"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q", order)
	}
}

// derived is a cache in which each Service is the derived Service of the import "foo".
type derived struct{ onlyImport }

func (derived) List(_ context.Context, all client.ObjectList, _ ...client.ListOption) error {
	all.(*mcsv1beta1.ServiceImportList).Items = []mcsv1beta1.ServiceImport{{ObjectMeta: metav1.ObjectMeta{Name: "foo"}}}
	return nil
}

// An import is enqueued when its derived Service gets endpoints, even before the queue exists.
func TestSliceOfADerivedServiceEnqueuesItsImport(t *testing.T) {
	for what, early := range map[string]bool{"told early": true, "told later": false} {
		queue := priorityqueue.New[ctrl.Request](t.Name())
		defer queue.ShutDown()
		source := &nameSource{ctx: t.Context(), cache: derived{}}
		if early {
			source.changed(types.NamespacedName{Name: "derived-foo"})
		}
		if err := source.Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		if !early {
			source.changed(types.NamespacedName{Name: "derived-foo"})
		}
		var asked []string
		for range queue.Len() {
			item, _ := queue.Get()
			asked = append(asked, item.Name)
			queue.Done(item)
		}
		slices.Sort(asked)
		if want := []string{"derived-foo", "foo"}; !slices.Equal(asked, want) {
			t.Errorf("%s: %q are asked, want %q", what, asked, want)
		}
	}
}

// A slice of a derived Service enqueues its import, with or without the import's name. The
// controller must delete a slice that a tenant created.
func TestSlicesOfADerivedServiceAskItsImport(t *testing.T) {
	r := &serviceReconciler{cache: derived{}}
	for what, labels := range map[string]map[string]string{
		"without the import's name":     {discoveryv1.LabelServiceName: "derived-foo"},
		"with the name of another":      {discoveryv1.LabelServiceName: "derived-foo", mcsv1beta1.LabelServiceName: "bar"},
		"of the import, as it is to be": {discoveryv1.LabelServiceName: "derived-foo", mcsv1beta1.LabelServiceName: "foo"},
	} {
		asked := r.importsOfSlice(t.Context(), &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: labels}})
		if !slices.Contains(asked, request("", "foo")) {
			t.Errorf("%s: %v are asked", what, asked)
		}
	}
}

// exportsOf is a cache with exports of some names, and with slices that are attached to some Services.
type exportsOf struct {
	client.Reader
	names, attached []string
}

func (c exportsOf) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	service, ok := o.FieldSelector.RequiresExactMatch(indexNative)
	if slices.Contains(c.attached, service) && ok {
		list.(*discoveryv1.EndpointSliceList).Items = make([]discoveryv1.EndpointSlice, 1)
	}
	return nil
}

func (c exportsOf) Get(_ context.Context, name types.NamespacedName, _ client.Object, _ ...client.GetOption) error {
	if slices.Contains(c.names, name.Name) {
		return nil
	}
	return errors.NewNotFound(schema.GroupResource{}, name.Name)
}

// A changed slice of an exported Service, or of one with attached slices, enqueues each Service that
// it belongs or belonged to. A change of trimmed fields enqueues nothing.
func TestSlicesOfOwnServicesAreEnqueued(t *testing.T) {
	slice := func(version, service string, imported ...string) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "s", ResourceVersion: version, Labels: map[string]string{discoveryv1.LabelServiceName: service}}}
		for _, of := range imported {
			s.Labels[mcsv1beta1.LabelServiceName] = of
		}
		return s
	}
	for _, test := range []struct {
		name          string
		before, after *discoveryv1.EndpointSlice
		want          []string
	}{
		{"it is made", nil, slice("1", "foo"), []string{"foo"}},
		{"it is deleted", slice("1", "foo"), nil, []string{"foo"}},
		{"it belongs to another Service", slice("1", "foo"), slice("2", "bar"), []string{"foo", "bar"}},
		{"nothing that counts has changed", slice("1", "foo"), slice("2", "foo"), nil},
		{"its Service is not exported", nil, slice("1", "private"), nil},
		{"its Service has attached slices", nil, slice("1", "native"), []string{"native"}},
		{"it belongs to no Service", nil, slice("1", ""), nil},
		{"it is an import's", nil, slice("1", "derived-foo", "foo"), nil},
		{"it becomes an import's", slice("1", "foo"), slice("2", "foo", "foo"), []string{"foo"}},
	} {
		source := &nameSource{}
		objects := exportsOf{names: []string{"foo", "bar", "derived-foo"}, attached: []string{"native"}}
		r := &serviceReconciler{clusterset: &clusterset{names: source, cache: objects}, cache: objects}
		r.enqueueOwn(t.Context(), test.before, test.after)
		var got []string
		for _, name := range source.early {
			got = append(got, name.Name)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q are enqueued, want %q", test.name, got, test.want)
		}
	}
}

// The cache keeps the exported fields of a slice of an own Service, even while the slice is being
// deleted: kube-proxy uses it until it is deleted. Slices of other owners in an import stay
// complete.
func TestTrimmedSlices(t *testing.T) {
	of := func(labels map[string]string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", Labels: labels, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}, DeletionTimestamp: new(metav1.Now()), Finalizers: []string{"example.org/held"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, TargetRef: &corev1.ObjectReference{Name: "pod"}}},
		}
	}
	for name, test := range map[string]struct {
		labels           map[string]string
		endpoints, whole bool
	}{
		"an own Service's": {map[string]string{discoveryv1.LabelServiceName: "db"}, true, false},
		"ours":             {map[string]string{mcsv1beta1.LabelServiceName: "db", discoveryv1.LabelManagedBy: mcs.ControllerName}, false, false},
		"of others":        {map[string]string{mcsv1beta1.LabelServiceName: "db"}, true, true},
	} {
		object, err := trimSlice(new(compact.Strings))(of(test.labels))
		slice := object.(*discoveryv1.EndpointSlice)
		whole := len(slice.Endpoints) > 0 && slice.Endpoints[0].TargetRef != nil
		if err != nil || slice.DeletionTimestamp == nil || slice.ManagedFields != nil || len(slice.Endpoints) > 0 != test.endpoints || whole != test.whole {
			t.Errorf("%s: %+v, %v", name, slice, err)
		}
	}
}

// someImports is a cache with imports.
type someImports struct {
	client.Reader
	all []mcsv1beta1.ServiceImport
}

func (c someImports) List(_ context.Context, all client.ObjectList, _ ...client.ListOption) error {
	all.(*mcsv1beta1.ServiceImportList).Items = c.all
	return nil
}

// Users with permission to write imports in one namespace cannot push out the clusters that other
// namespaces record.
func TestNamespacesRememberInTurn(t *testing.T) {
	remembers := func(namespace, name string, clusters ...string) mcsv1beta1.ServiceImport {
		imp := mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{mcs.LabelManagedBy: mcs.ControllerName}}}
		for _, cluster := range clusters {
			imp.Status.Clusters = append(imp.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: cluster})
		}
		return imp
	}
	cache := someImports{all: []mcsv1beta1.ServiceImport{
		remembers("tenant", "a", "a1", "a2"), remembers("tenant", "b", "a1", "a2"), remembers("tenant", "c", "a1", "a2"),
		remembers("shop", "cart", "west"), remembers("shop", "till", "north", "west"), remembers("mail", "box", "west"),
	}}
	if got, err := remembered(t.Context(), cache); err != nil || !slices.Equal(got, []string{"west", "a1", "north", "a2"}) {
		t.Errorf("remembered %q, %v", got, err)
	}
}
