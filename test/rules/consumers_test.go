package rules

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	s.restart(2, func(o *reconcile.Options) { o.ImportNamespaces = namespaces(t, "import=yes") })
	t.Cleanup(func() { s.restart(2) })
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
	label := func(value string) { s.label(2, "import", value) }
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

// A cluster exports from the namespaces that it selects, and announces them. A namespace that loses its label keeps its exports for
// a while.
func TestExportNamespaces(t *testing.T) {
	s := newStage(t, three.start(t))
	s.restart(0, func(o *reconcile.Options) { o.ExportNamespaces = namespaces(t, "export=yes") })
	back := sync.OnceFunc(func() { s.restart(0) })
	t.Cleanup(back)
	s.export(0, service("foo"), "10.9.1.1")
	s.export(1, service("foo"), "10.9.2.1")
	s.until("refused", func() error {
		return errors.Join(s.condition(0, "foo", "Ready", metav1.ConditionFalse, "Failed"),
			s.imported(0, "foo", []string{"c2"}, "10.9.2.1"), s.imported(2, "foo", []string{"c2"}, "10.9.2.1"))
	})
	s.label(0, "export", "yes")
	both := func() error {
		var failed []error
		for i := range s.set {
			failed = append(failed, s.imported(i, "foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.1"))
		}
		return errors.Join(append(failed, s.condition(0, "foo", "Ready", metav1.ConditionTrue, "Ready"))...)
	}
	s.until("selected", both)
	s.export(0, service("alone"), "10.9.1.2")
	s.until("an import of its own", func() error { return s.imported(2, "alone", []string{"c1"}, "10.9.1.2") })
	imp, err := s.imp(2, "alone")
	if err != nil {
		t.Fatal(err)
	}
	s.label(0, "export", "no") // by mistake, and back at once
	s.label(0, "export", "yes")
	s.export(0, service("later"), "10.9.1.3")
	s.until("later ones", func() error { return errors.Join(both(), s.imported(2, "later", []string{"c1"}, "10.9.1.3")) })
	if now, err := s.imp(2, "alone"); err != nil || now.UID != imp.UID {
		t.Errorf("alone was deleted and created again: %v", err)
	}
	s.label(0, "export", "no")
	s.until("no longer selected", func() error {
		return errors.Join(s.nothing(0, "alone"), s.nothing(2, "alone"), s.imported(0, "foo", []string{"c2"}, "10.9.2.1"), s.imported(1, "foo", []string{"c2"}, "10.9.2.1"))
	})
	back()
	s.until("from all namespaces again", func() error { return errors.Join(both(), s.imported(2, "alone", []string{"c1"}, "10.9.1.2")) })
}

func namespaces(t *testing.T, selector string) (n reconcile.Namespaces) {
	t.Helper()
	if err := n.UnmarshalText([]byte(selector)); err != nil {
		t.Fatal(err)
	}
	return n
}

// restart restarts the controller of a cluster with other options.
func (s *stage) restart(in int, change ...func(*reconcile.Options)) {
	s.Helper()
	c := s.set[in]
	err := errors.Join(c.End(), c.Run(context.WithoutCancel(s.Context()), append(usual(c), change...)...))
	if err != nil {
		s.Fatal(err)
	}
}

// label sets a label of the namespace.
func (s *stage) label(in int, key, value string) {
	s.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value))
	if err := s.set[in].Admin.Patch(s.Context(), namespace, patch); err != nil {
		s.Fatal(err)
	}
}
