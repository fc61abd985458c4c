package rules

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/world"
)

// asking is an export that asks for a native name, and for traffic besides the local endpoints.
func asking(name string) *mcsv1beta1.ServiceExport {
	export := world.Export(name)
	export.Annotations = map[string]string{mcs.AnnotationNativeName: "true", mcs.AnnotationPreferClusters: "any"}
	return export
}

// attached wants the endpoints of Service db in c1: with those of the other cluster, or without.
func (s *tenants) attached(with bool) error {
	want := []string{"10.9.1.5"}
	if with {
		want = []string{"10.66.0.1", "10.9.1.5"}
	}
	return s.leads("c1", labelLeadsTo, "db", want...)
}

// TestNativeNamesOfTenants: writers of exports in another cluster reach the own names of this one only where its administrators, or writers
// of its imports, allow it. Writers of its Services have the last word.
func TestNativeNamesOfTenants(t *testing.T) {
	s := newTenants(t)
	db := world.Service("db")
	s.Create("c1", db, world.Slice("db-1", map[string]string{labelLeadsTo: "db"}, "10.9.1.5"))
	far := s.tenant("c2", "edit", slicesToo, exportsToo)
	s.CreateAs(far, world.Service("db"), world.Slice("db-1", map[string]string{labelLeadsTo: "db"}, "10.66.0.1"), asking("db"), world.Service("new"), asking("new"))
	serves(s.Namespace, "c1", "db", "10.66.0.1")
	s.settled()
	s.Check(s.attached(false))
	s.Check(s.Gone("c1", new(corev1.Service), "new"))

	near := s.tenant("c1", "edit", importsToo)
	answer := func(object client.Object, value string) {
		world.EditAs(s.Namespace, near, object, "db", func(o client.Object) {
			annotations := o.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[mcs.AnnotationNativeName] = value
			o.SetAnnotations(annotations)
		})
	}
	answer(new(mcsv1beta1.ServiceImport), "true")
	s.Until("a writer of imports allows it", func() error { return s.attached(true) })
	answer(new(mcsv1beta1.ServiceImport), "false")
	s.Until("and refuses it", func() error { return s.attached(false) })

	s.Label("c1", "native-names", "yes")
	s.Until("where administrators allow it, a name begins to exist", func() error {
		return s.Admin("c1").Get(t.Context(), s.Key("new"), new(corev1.Service))
	})
	s.Check(s.attached(false)) // the import refuses
	world.EditAs(s.Namespace, near, new(mcsv1beta1.ServiceImport), "db", func(imp *mcsv1beta1.ServiceImport) { delete(imp.Annotations, mcs.AnnotationNativeName) })
	s.Until("endpoints of the other cluster are attached", func() error { return s.attached(true) })
	answer(new(corev1.Service), "false")
	s.Until("the Service refuses", func() error { return s.attached(false) })

	// Only the label and the slices of the controller are involved: the Service is its user's.
	if now := world.Live(s.Namespace, "c1", new(corev1.Service), "db"); now.UID != db.UID || now.Labels[mcs.LabelNativeOf] != "" || now.Spec.ClusterIP != db.Spec.ClusterIP {
		t.Errorf("the Service was %+v and is %+v", db, now)
	}
}

// TestNativeNamesLeaveTheAPIServerAlone: the own Service of the API server never gets endpoints of another cluster, also if its
// namespace is named in the flags.
func TestNativeNamesLeaveTheAPIServerAlone(t *testing.T) {
	s := newTenants(t)
	named := namespaces(t, "kubernetes.io/metadata.name in (default, "+s.Name+")")
	s.Restart("c1", func(o *reconcile.Options) { o.ImportNamespaces = named })
	s.Restart("c2", func(o *reconcile.Options) { o.ExportNamespaces = named })
	t.Cleanup(func() {
		s.Restart("c1")
		s.Restart("c2")
	})
	theirs := s.Called(metav1.NamespaceDefault)
	theirs.Label("c1", "native-names", "yes")
	export := asking("kubernetes")
	theirs.Create("c2", export)
	t.Cleanup(func() { // the namespace does not go with the test
		s.Check(s.Admin("c2").Delete(s.Late(), export))
	})
	world.Edit(theirs, "c1", new(mcsv1beta1.ServiceImport), "kubernetes", func(imp *mcsv1beta1.ServiceImport) { // as soon as it is imported
		metav1.SetMetaDataAnnotation(&imp.ObjectMeta, mcs.AnnotationNativeName, "true")
	})
	theirs.Says("c1", "kubernetes", "NativeName", "UnsupportedService", "")
	var all discoveryv1.EndpointSliceList
	if err := s.Admin("c1").List(t.Context(), &all, client.InNamespace(metav1.NamespaceDefault), client.HasLabels{mcs.LabelNativeOf}); err != nil || len(all.Items) > 0 {
		t.Errorf("attached are the slices %+v: %v", all.Items, err)
	}
}

// TestPreferencesOfTenants: the annotations choose among the clusters that export a name, and add no endpoint. A later export does not
// decide. On an import they count in its own cluster, for those who can write imports.
func TestPreferencesOfTenants(t *testing.T) {
	s := newTenants(t)
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Export("c2", world.Service("foo"), "10.9.2.1")
	const both = "10.9.1.1 10.9.2.1"
	serves(s.Namespace, "c1", "foo", both) // both serve

	later := s.tenant("c2", "edit", exportsToo)
	world.EditAs(s.Namespace, later, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) {
		export.Annotations = map[string]string{mcs.AnnotationPreferClusters: "cluster=c2", mcs.AnnotationToClusters: "nobody"}
	})
	serves(s.Namespace, "c1", "foo", "10.9.1.1") // the later export is for its own cluster only
	world.EditAs(s.Namespace, later, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) {
		delete(export.Annotations, mcs.AnnotationToClusters)
	})
	serves(s.Namespace, "c1", "foo", both) // it does not decide
	s.settled()
	s.Check(served(s.Namespace, "c1", "derived-foo", both))

	imp := s.MustImport("c1", "foo")
	prefer := func(tenant client.Client, list string) error {
		return s.patch(tenant, imp.DeepCopy(), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, mcs.AnnotationPreferClusters, list))
	}
	if err := prefer(later, "cluster=c2"); !apierrors.IsForbidden(err) {
		t.Errorf("an import by a tenant without the right: %v; want forbidden", err)
	}
	s.Must(prefer(s.tenant("c1", "view", importsToo), "cluster=c2"))
	serves(s.Namespace, "c1", "foo", "10.9.2.1") // the import's own cluster follows
	if err := served(s.Namespace, "c2", "derived-foo", both); err != nil {
		t.Error("the other cluster:", err)
	}
}

// TestProbesOfTenants: whether the endpoints of a name are tested is decided by its oldest export. On an
// import it is decided for its own cluster, by those who can write imports.
func TestProbesOfTenants(t *testing.T) {
	s := newTenants(t)
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Export("c2", world.Service("foo"), "10.9.2.1")
	const both = "10.9.1.1 10.9.2.1"
	serves(s.Namespace, "c1", "foo", both) // both serve

	ask := func(by client.Client) {
		world.EditAs(s.Namespace, by, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) {
			export.Annotations = map[string]string{mcs.AnnotationProbe: "true"}
		})
	}
	later := s.tenant("c2", "edit", exportsToo)
	ask(later)
	s.Until("the later export is in conflict", func() error { return s.Condition("c2", "foo", "Conflict", metav1.ConditionTrue, "ProbeConflict") })
	s.settled()
	s.Check(s.Said("c1", "foo", "EndpointsProbed", "", "")) // the later export does not decide
	ask(s.Admin("c1"))
	// The controllers of these tests run with --probe-peers=false.
	s.Says("c2", "foo", "EndpointsProbed", "ProbesOff", "")

	refuse := func(in string, by client.Client) error {
		return s.patch(by, s.MustImport(in, "foo"), fmt.Sprintf(`{"metadata":{"annotations":{%q:"false"}}}`, mcs.AnnotationProbe))
	}
	if err := refuse("c2", later); !apierrors.IsForbidden(err) {
		t.Errorf("an import by a tenant without the right: %v; want forbidden", err)
	}
	s.Must(refuse("c1", s.tenant("c1", "view", importsToo)))
	s.Says("c1", "foo", "EndpointsProbed", "", "") // the import's own cluster follows
	s.Check(errors.Join(s.Said("c2", "foo", "EndpointsProbed", "ProbesOff", ""), served(s.Namespace, "c1", "derived-foo", both), served(s.Namespace, "c2", "derived-foo", both)))
}
