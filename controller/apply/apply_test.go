package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/controller/plan"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
)

var shared = kube.Shared{Prepare: func(ctx context.Context, c *kube.Cluster) error {
	return c.InstallCRDs(ctx, kube.BothVersions)
}}

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// desk is a writer, a namespace, and an import in it.
type desk struct {
	*Writer
	client.Client
	imp *mcsv1beta1.ServiceImport
}

// do makes writes, and returns the errors of all of them.
func (d desk) do(ctx context.Context, st observed.State, c diff.Changes) error {
	return errorOf(d.Do(ctx, st, c))
}

func errorOf(all Outcomes, aside error) error {
	errs := []error{aside}
	for _, o := range all {
		errs = append(errs, o.Err)
	}
	return errors.Join(errs...)
}

func newDesk(t *testing.T) desk {
	t.Helper()
	cluster := shared.Cluster(t)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), mcsv1beta1.Install(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	imp := &mcsv1beta1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Namespace: kube.Namespace(t, cluster), Name: "foo"},
		Spec:       mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{{Port: 80}}},
	}
	if err := c.Create(t.Context(), imp); err != nil {
		t.Fatal(err)
	}
	return desk{&Writer{Client: c, Status: c, Live: c, Events: &events.FakeRecorder{}, Refusals: new(Refusals), Contested: new(contested.Memory), News: func([]contested.Field) {}}, c, imp}
}

func (d desk) plan() diff.Changes {
	return plan.Plan(observed.State{Import: d.imp, CRD: observed.CRD{APIVersion: mcsv1beta1.GroupVersion.String(), MaxIPs: 2, IPFamilies: true, Conditions: true}})
}

// made creates and returns the derived Service.
func (d desk) made(t *testing.T) *corev1.Service {
	t.Helper()
	if err := d.do(t.Context(), observed.State{Import: d.imp}, d.plan()); err != nil {
		t.Fatal(err)
	}
	svc := new(corev1.Service)
	if err := d.Get(t.Context(), client.ObjectKey{Namespace: d.imp.Namespace, Name: "derived-foo"}, svc); err != nil {
		t.Fatal(err)
	}
	return svc
}

// A stale cache must not give an import another address (C24): only the import itself contains the
// former address.
func TestCreateFromAStaleImportIsRefused(t *testing.T) {
	d := newDesk(t)
	newer := d.imp.DeepCopy()
	newer.Annotations = map[string]string{mcs.AnnotationClusterIPs: "10.0.0.77"}
	if err := d.Update(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	if err := d.do(t.Context(), observed.State{Import: d.imp}, d.plan()); !errors.Is(err, ErrStale) {
		t.Errorf("got %v, want ErrStale", err)
	}
	if err := d.Get(t.Context(), client.ObjectKey{Namespace: d.imp.Namespace, Name: "derived-foo"}, new(corev1.Service)); !apierrors.IsNotFound(err) {
		t.Errorf("a Service was made: %v", err)
	}
}

// The slices of a name are written before its addresses, so that a name that resolves has
// endpoints. Each outcome has the new version.
func TestSlicesComeBeforeTheAddresses(t *testing.T) {
	d := newDesk(t)
	d.made(t)
	filled := d.imp.DeepCopy()
	filled.Spec.IPs = []string{"10.0.0.78"}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: d.imp.Namespace, Name: "foo-1"},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	st := observed.State{Namespace: d.imp.Namespace, Name: d.imp.Name, Import: d.imp}
	var writes []string
	all, _ := d.Do(t.Context(), st, diff.Changes{
		Import:       &diff.Edit[*mcsv1beta1.ServiceImport]{Old: d.imp, New: filled},
		CreateSlices: []*discoveryv1.EndpointSlice{slice},
	})
	for _, o := range all {
		writes = append(writes, fmt.Sprintf("%T", o.Object))
		if version := o.Object.GetResourceVersion(); o.Err != nil || version == "" || version == d.imp.ResourceVersion {
			t.Errorf("%T has the version from before the write: %v", o.Object, o.Err)
		}
	}
	if want := []string{"*v1.EndpointSlice", "*v1beta1.ServiceImport"}; !slices.Equal(writes, want) {
		t.Errorf("wrote %v, want %v", writes, want)
	}
}

// A write that the API server refuses stops no other one, except that nothing is deleted: what was to take its place is
// not there.
func TestARefusedWriteStopsNoOther(t *testing.T) {
	d := newDesk(t)
	svc := d.made(t)
	bad := svc.DeepCopy()
	bad.Spec.Ports[0].Port = 70000
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: d.imp.Namespace, Name: "foo-1"}, AddressType: discoveryv1.AddressTypeIPv4}
	filled := d.imp.DeepCopy()
	filled.Spec.IPs = []string{"10.0.0.79"}
	all, aside := d.Do(t.Context(), observed.State{Namespace: d.imp.Namespace, Name: d.imp.Name, Import: d.imp}, diff.Changes{
		Service: &diff.Edit[*corev1.Service]{Old: svc, New: bad}, CreateSlices: []*discoveryv1.EndpointSlice{slice},
		Import: &diff.Edit[*mcsv1beta1.ServiceImport]{Old: d.imp, New: filled}, Delete: []*corev1.Service{svc},
	})
	var results []Result
	for _, o := range all {
		results = append(results, o.Result)
	}
	if want := []Result{Refused, Created, Changed}; !slices.Equal(results, want) || errors.Join(all.Err(), aside) != nil {
		t.Errorf("the results are %v, want %v: %v, %v", results, want, errorOf(all, aside), aside)
	}
	if err := d.Get(t.Context(), client.ObjectKeyFromObject(svc), new(corev1.Service)); err != nil {
		t.Errorf("the Service is gone: %v", err)
	}
}

func TestCreateForADeletedImportIsRefused(t *testing.T) {
	d := newDesk(t)
	if err := d.Delete(t.Context(), d.imp.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if err := d.do(t.Context(), observed.State{Import: d.imp}, d.plan()); !errors.Is(err, ErrStale) {
		t.Errorf("got %v, want ErrStale", err)
	}
}

// A patch that lost a race changes nothing, even if the two writes touch different fields: the plan
// can depend on the field that changed.
func TestPatchOfAStaleObjectIsRefused(t *testing.T) {
	d := newDesk(t)
	svc := d.made(t)
	theirs := svc.DeepCopy()
	theirs.Spec.Selector = map[string]string{"app": "theirs"}
	if err := d.Update(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	edited := svc.DeepCopy()
	edited.Labels["ours"] = "too"
	err := d.do(t.Context(), observed.State{Import: d.imp}, diff.Changes{Service: &diff.Edit[*corev1.Service]{Old: svc, New: edited}})
	if !errors.Is(err, ErrStale) {
		t.Errorf("got %v, want ErrStale", err)
	}
	after := new(corev1.Service)
	if err := d.Get(t.Context(), client.ObjectKeyFromObject(svc), after); err != nil || after.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("it was written: %+v, %v", after.ObjectMeta, err)
	}
}

// A Service that was created under the name of a Service that is planned for deletion stays.
func TestDeleteOfAnotherServiceOfTheNameIsRefused(t *testing.T) {
	d := newDesk(t)
	svc := d.made(t)
	if err := d.Delete(t.Context(), svc.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	another := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9}}}}
	if err := d.Create(t.Context(), another); err != nil {
		t.Fatal(err)
	}
	if err := d.do(t.Context(), observed.State{Import: d.imp}, diff.Changes{Delete: []*corev1.Service{svc}}); !errors.Is(err, ErrStale) {
		t.Errorf("got %v, want ErrStale", err)
	}
	if err := d.Get(t.Context(), client.ObjectKeyFromObject(another), another); err != nil || another.DeletionTimestamp != nil {
		t.Errorf("it is gone: %v", err)
	}
}

// The writer never writes an object that the controller does not own, whatever the plan contains.
// The writer has no client here: using it would panic.
func TestForeignObjectsAreNeverWritten(t *testing.T) {
	imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foo"}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foo-c2"}}
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "derived-foo"}}
	ofAnother := theirs.DeepCopy()
	ofAnother.Labels = map[string]string{mcs.LabelManagedBy: mcs.ControllerName}
	ofAnother.OwnerReferences = []metav1.OwnerReference{{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: "ServiceImport", Name: "bar"}}
	for _, svc := range []*corev1.Service{theirs, ofAnother} {
		edit := &diff.Edit[*corev1.Service]{Old: svc, New: svc}
		for name, changes := range map[string]diff.Changes{
			"patch": {Service: edit}, "patch of the status": {ServiceStatus: edit}, "delete": {Delete: []*corev1.Service{svc}},
			"delete of an import": {DeleteImport: imp}, "delete of a slice": {DeleteSlices: []*discoveryv1.EndpointSlice{slice}},
			"update of a slice": {UpdateSlices: []diff.Edit[*discoveryv1.EndpointSlice]{{Old: slice, New: slice}}},
		} {
			if err := errorOf((&Writer{Refusals: new(Refusals)}).Do(t.Context(), observed.State{Import: imp}, changes)); !errors.Is(err, errNotOurs) {
				t.Errorf("%s: got %v, want errNotOurs", name, err)
			}
		}
	}
}

// A refusal carries the field that the API server named, because the plan depends on it.
func TestRefusalNamesTheField(t *testing.T) {
	for _, test := range []struct {
		name  string
		edit  func(*corev1.Service)
		field string
	}{
		{"an address out of range", func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "192.0.2.1", []string{"192.0.2.1"} }, "spec.clusterIPs"},
		{"a family that the cluster lacks", func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }, "spec.ipFamilies[0]"},
		{"an unknown traffic distribution", func(s *corev1.Service) { s.Spec.TrafficDistribution = new("Nearby") }, "spec.trafficDistribution"},
		{"a bad port", func(s *corev1.Service) { s.Spec.Ports[0].Port = 70000 }, "spec.ports[0].port"},
		{"a bad name", func(s *corev1.Service) { s.Name = "Not_A_Name" }, "metadata.name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk(t)
			changes := d.plan()
			test.edit(changes.Create)
			got, _ := d.Do(t.Context(), observed.State{Import: d.imp}, changes)
			if len(got) != 1 || got[0].Result != Refused {
				t.Fatalf("got %v, want a refusal", got)
			}
			if first := got[0].Refusals[0]; first.Field != test.field || first.Message == "" {
				t.Errorf("got %+v, want field %s", got[0].Refusals, test.field)
			}
		})
	}
}
