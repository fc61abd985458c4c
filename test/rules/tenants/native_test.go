package rbac

import (
	"context"
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
)

// allowingNativeNames lets exports ask for native names in the namespaces with a label.
func allowingNativeNames(o *reconcile.Options) {
	if err := o.NativeNames.UnmarshalText([]byte("native-names=yes")); err != nil {
		panic(err) // the selector is a constant
	}
}

// allowNative does so in a namespace of c1, as its administrator does.
func (s *stage) allowNative(namespace string) {
	s.Helper()
	s.until("label namespace "+namespace, func() error {
		in := new(corev1.Namespace)
		if err := s.c1.Admin.Get(s.Context(), client.ObjectKey{Name: namespace}, in); err != nil {
			return err
		}
		metav1.SetMetaDataLabel(&in.ObjectMeta, "native-names", "yes")
		return s.c1.Admin.Update(s.Context(), in)
	})
}

// asking is an export that asks for a native name, and for traffic besides the local endpoints.
func asking(name string) *mcsv1beta1.ServiceExport {
	export := exportOf(name)
	export.Annotations = map[string]string{mcs.AnnotationNativeName: "true", mcs.AnnotationPreferClusters: "any"}
	return export
}

// attached wants the endpoints of Service db in c1: with those of the other cluster, or without.
func (s *stage) attached(with bool) error {
	want := []string{"10.9.1.5"}
	if with {
		want = []string{"10.66.0.1", "10.9.1.5"}
	}
	return s.leads(s.c1, labelLeadsTo, "db", want...)
}

// TestNativeNamesOfTenants: writers of exports in another cluster reach the own names of this one only where its administrators, or writers
// of its imports, allow it. Writers of its Services have the last word.
func TestNativeNamesOfTenants(t *testing.T) {
	s := newStage(t)
	db := service("db")
	s.create(s.c1.Admin, db, slice("db-1", map[string]string{labelLeadsTo: "db"}, "10.9.1.5"))
	far := s.tenant(s.c2, "edit", slicesToo, exportsToo)
	s.create(far, service("db"), slice("db-1", map[string]string{labelLeadsTo: "db"}, "10.66.0.1"), asking("db"), service("new"), asking("new"))
	s.until("the clusterset name has it", func() error { return s.usable(s.c1, "db", "10.66.0.1") })
	s.settled()
	if err := s.attached(false); err != nil {
		t.Error("without consent:", err)
	}
	if err := s.c1.Admin.Get(t.Context(), s.key("new"), new(corev1.Service)); !apierrors.IsNotFound(err) {
		t.Errorf("without consent, there is a Service new: %v", err)
	}

	near := s.tenant(s.c1, "edit", importsToo)
	answer := func(object client.Object, value string) {
		edit(s, near, "db", object, func(o client.Object) {
			annotations := o.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[mcs.AnnotationNativeName] = value
			o.SetAnnotations(annotations)
		})
	}
	answer(new(mcsv1beta1.ServiceImport), "true")
	s.until("a writer of imports allows it", func() error { return s.attached(true) })
	answer(new(mcsv1beta1.ServiceImport), "false")
	s.until("and refuses it", func() error { return s.attached(false) })

	s.allowNative(s.namespace)
	s.until("where administrators allow it, a name begins to exist", func() error {
		return s.c1.Admin.Get(t.Context(), s.key("new"), new(corev1.Service))
	})
	if err := s.attached(false); err != nil {
		t.Error("the import refuses:", err)
	}
	edit(s, near, "db", new(mcsv1beta1.ServiceImport), func(imp *mcsv1beta1.ServiceImport) { delete(imp.Annotations, mcs.AnnotationNativeName) })
	s.until("endpoints of the other cluster are attached", func() error { return s.attached(true) })
	answer(new(corev1.Service), "false")
	s.until("the Service refuses", func() error { return s.attached(false) })

	// Only the label and the slices of the controller are involved: the Service is its user's.
	now := new(corev1.Service)
	if err := s.c1.Admin.Get(t.Context(), s.key("db"), now); err != nil || now.UID != db.UID || now.Labels[mcs.LabelNativeOf] != "" || now.Spec.ClusterIP != db.Spec.ClusterIP {
		t.Errorf("the Service was %+v and is %+v: %v", db, now, err)
	}
}

// TestNativeNamesLeaveTheAPIServerAlone: the own Service of the API server never gets endpoints of another cluster.
func TestNativeNamesLeaveTheAPIServerAlone(t *testing.T) {
	s := newStage(t)
	s.allowNative(metav1.NamespaceDefault)
	export := asking("kubernetes")
	export.Namespace = metav1.NamespaceDefault
	if err := s.c2.Admin.Create(t.Context(), export); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the namespace does not go with the test
		if err := s.c2.Admin.Delete(context.WithoutCancel(t.Context()), export); err != nil {
			t.Error(err)
		}
	})
	key := client.ObjectKeyFromObject(export)
	imp := new(mcsv1beta1.ServiceImport)
	s.until("it is imported", func() error { return s.c1.Admin.Get(t.Context(), key, imp) })
	s.until("and allowed by a user", func() error {
		if err := s.c1.Admin.Get(t.Context(), key, imp); err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&imp.ObjectMeta, mcs.AnnotationNativeName, "true")
		return s.c1.Admin.Update(t.Context(), imp)
	})
	s.until("the condition says why not", func() error {
		if err := s.c1.Admin.Get(t.Context(), key, imp); err != nil {
			return err
		}
		for _, c := range imp.Status.Conditions {
			if c.Type == "NativeName" && c.Reason == "UnsupportedService" {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", imp.Status.Conditions)
	})
	var all discoveryv1.EndpointSliceList
	if err := s.c1.Admin.List(t.Context(), &all, client.InNamespace(metav1.NamespaceDefault), client.HasLabels{mcs.LabelNativeOf}); err != nil || len(all.Items) > 0 {
		t.Errorf("attached are the slices %+v: %v", all.Items, err)
	}
}
