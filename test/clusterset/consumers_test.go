package clusterset

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// An export names the clusters that import it. The others have nothing of it, and its own cluster always has it.
func TestExportForSomeClustersOnly(t *testing.T) {
	s := newStage(t, three.start(t))
	s.create(0, service("foo"), endpointsOf(service("foo"), "", "10.9.1.1"))
	export := exportOf("foo")
	export.Annotations = map[string]string{mcs.AnnotationToClusters: "c3"}
	s.create(0, export)
	for _, i := range []int{0, 2} {
		s.until("imported", func() error { return s.imported(i, "foo", []string{"c1"}, "10.9.1.1") })
	}
	s.export(0, service("later"), "10.9.1.2")
	s.until("later ones", func() error { return s.imported(1, "later", []string{"c1"}, "10.9.1.2") })
	if err := s.nothing(1, "foo"); err != nil {
		t.Error(err)
	}
	edit(s, 0, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) {
		export.Annotations[mcs.AnnotationToClusters] = "c2, c3"
	})
	s.until("one more cluster", func() error { return s.imported(1, "foo", []string{"c1"}, "10.9.1.1") })
	edit(s, 0, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) {
		export.Annotations[mcs.AnnotationToClusters] = "c2"
	})
	s.until("one less", func() error {
		return errors.Join(s.nothing(2, "foo"), s.imported(1, "foo", []string{"c1"}, "10.9.1.1"))
	})
	edit(s, 0, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) { export.Annotations = nil })
	s.until("all", func() error { return s.imported(2, "foo", []string{"c1"}, "10.9.1.1") })
}

// A cluster imports to the namespaces that it selects. Its own exports do not depend on this. A namespace that loses its label keeps
// its imports for a while.
func TestImportNamespaces(t *testing.T) {
	s := newStage(t, three.start(t))
	c3 := s.set[2]
	var only reconcile.Namespaces
	if err := errors.Join(only.UnmarshalText([]byte("import=yes")), c3.End()); err != nil {
		t.Fatal(err)
	}
	if err := c3.Run(context.WithoutCancel(t.Context()), inRegion(c3, regions["c3"]), func(o *reconcile.Options) { o.ImportNamespaces = only }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(c3.End(), c3.Run(ctx, inRegion(c3, regions["c3"]))); err != nil {
			t.Error(err)
		}
	})
	s.export(0, service("foo"), "10.9.1.1")
	s.export(1, service("both"), "10.9.2.1")
	s.export(2, service("both"), "10.9.3.1")
	s.until("imported elsewhere", func() error {
		return errors.Join(s.imported(1, "foo", []string{"c1"}, "10.9.1.1"), s.imported(0, "both", []string{"c2", "c3"}, "10.9.2.1", "10.9.3.1"))
	})
	s.until("its own export", func() error { return s.imported(2, "both", []string{"c3"}, "10.9.3.1") })
	if err := s.nothing(2, "foo"); err != nil {
		t.Error(err)
	}
	label := func(value string) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
		s.until("label the namespace", func() error {
			if err := c3.Admin.Get(s.Context(), client.ObjectKey{Name: s.namespace}, namespace); err != nil {
				return err
			}
			namespace.Labels["import"] = value
			return c3.Admin.Update(s.Context(), namespace)
		})
	}
	label("yes")
	s.until("selected", func() error {
		return errors.Join(s.imported(2, "foo", []string{"c1"}, "10.9.1.1"), s.imported(2, "both", []string{"c2", "c3"}, "10.9.2.1", "10.9.3.1"))
	})
	imp, err := s.imp(2, "foo")
	if err != nil {
		t.Fatal(err)
	}
	label("no") // by mistake, and back at once
	label("yes")
	s.export(0, service("later"), "10.9.1.2")
	s.until("later ones", func() error { return s.imported(2, "later", []string{"c1"}, "10.9.1.2") })
	if now, err := s.imp(2, "foo"); err != nil || now.UID != imp.UID {
		t.Errorf("foo was deleted and created again: %v", err)
	}
	label("no")
	s.until("no longer selected", func() error {
		return errors.Join(s.nothing(2, "foo"), s.imported(2, "both", []string{"c3"}, "10.9.3.1"))
	})
}
