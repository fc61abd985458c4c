package rules

import (
	"errors"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/test/world"
)

// A cluster imports to the namespaces that it selects. Its own exports do not depend on this. A namespace that loses its label keeps
// its imports for a while.
func TestImportNamespaces(t *testing.T) {
	s := world.Three(t).Namespace()
	s.Restart("c3", func(o *reconcile.Options) { o.ImportNamespaces = namespaces(t, "import=yes") })
	t.Cleanup(func() { s.Restart("c3") })
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Export("c2", world.Service("both"), "10.9.2.1")
	s.Export("c3", world.Service("both"), "10.9.3.1")
	s.Until("imported elsewhere", func() error {
		return errors.Join(s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1"), s.Imported("c1", "both", []string{"c2", "c3"}, "10.9.2.1", "10.9.3.1"))
	})
	s.Until("its own export", func() error { return s.Imported("c3", "both", []string{"c3"}, "10.9.3.1") })
	other := world.Three(t).Namespace() // where c3 imports what c1 exports after foo
	other.Label("c3", "import", "yes")
	other.Export("c1", world.Service("marker"), "10.9.1.3")
	other.Until("c3 has read c1 since", func() error { return other.Imported("c3", "marker", []string{"c1"}, "10.9.1.3") })
	s.Check(s.Nothing("c3", "foo"))
	label := func(value string) { s.Label("c3", "import", value) }
	label("yes")
	s.Until("selected", func() error {
		return errors.Join(s.Imported("c3", "foo", []string{"c1"}, "10.9.1.1"), s.Imported("c3", "both", []string{"c2", "c3"}, "10.9.2.1", "10.9.3.1"))
	})
	still := stays(s, "c3", "foo")
	label("no") // by mistake, and back at once
	label("yes")
	s.Export("c1", world.Service("later"), "10.9.1.2")
	s.Until("later ones", func() error { return s.Imported("c3", "later", []string{"c1"}, "10.9.1.2") })
	still()
	label("no")
	s.Until("no longer selected", func() error {
		return errors.Join(s.Nothing("c3", "foo"), s.Imported("c3", "both", []string{"c3"}, "10.9.3.1"))
	})
}

// A cluster exports from the namespaces that it selects, and announces them. A namespace that loses its label keeps its exports for
// a while.
func TestExportNamespaces(t *testing.T) {
	s := world.Three(t).Namespace()
	s.Restart("c1", func(o *reconcile.Options) { o.ExportNamespaces = namespaces(t, "export=yes") })
	back := sync.OnceFunc(func() { s.Restart("c1") })
	t.Cleanup(back)
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Export("c2", world.Service("foo"), "10.9.2.1")
	s.Until("refused", func() error {
		return errors.Join(s.Condition("c1", "foo", "Ready", metav1.ConditionFalse, "Failed"),
			s.Imported("c1", "foo", []string{"c2"}, "10.9.2.1"), s.Imported("c3", "foo", []string{"c2"}, "10.9.2.1"))
	})
	s.Label("c1", "export", "yes")
	both := func() {
		s.Everywhere("foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.1")
		s.Until("exported", func() error { return s.Condition("c1", "foo", "Ready", metav1.ConditionTrue, "Ready") })
	}
	both()
	s.Export("c1", world.Service("alone"), "10.9.1.2")
	s.Until("an import of its own", func() error { return s.Imported("c3", "alone", []string{"c1"}, "10.9.1.2") })
	still := stays(s, "c3", "alone")
	s.Label("c1", "export", "no") // by mistake, and back at once
	s.Label("c1", "export", "yes")
	s.Export("c1", world.Service("later"), "10.9.1.3")
	s.Until("later ones", func() error { return s.Imported("c3", "later", []string{"c1"}, "10.9.1.3") })
	both()
	still()
	s.Label("c1", "export", "no")
	s.Until("no longer selected", func() error {
		return errors.Join(s.Nothing("c1", "alone"), s.Nothing("c3", "alone"), s.Imported("c1", "foo", []string{"c2"}, "10.9.2.1"), s.Imported("c2", "foo", []string{"c2"}, "10.9.2.1"))
	})
	back()
	both() // from all namespaces again
	s.Until("and alone", func() error { return s.Imported("c3", "alone", []string{"c1"}, "10.9.1.2") })
}

// Each cluster has its own names in kube-system. None of them leads to another cluster, unless both have chosen so by the namespace's
// name.
func TestSystemNamespaces(t *testing.T) {
	set := world.Three(t)
	s, system, marker := set.Namespace(), set.Called("kube-system"), set.Namespace()
	system.Export("c1", world.Service("metrics"), "10.9.1.1")
	marker.Export("c1", world.Service("marker"), "10.9.1.2")
	marker.Until("c3 has read c1 since", func() error { return marker.Imported("c3", "marker", []string{"c1"}, "10.9.1.2") })
	system.Until("refused", func() error { return system.Condition("c1", "metrics", "Ready", metav1.ConditionFalse, "Failed") })
	system.Check(errors.Join(system.Nothing("c1", "metrics"), system.Nothing("c3", "metrics")))

	named := namespaces(t, "kubernetes.io/metadata.name in (kube-system, "+s.Name+")")
	s.Restart("c1", func(o *reconcile.Options) { o.ExportNamespaces = named })
	t.Cleanup(func() { s.Restart("c1") })
	system.Until("exported", func() error { return system.Condition("c1", "metrics", "Ready", metav1.ConditionTrue, "Ready") })
	marker.Until("c2 has read c1 since", func() error { return marker.Nothing("c2", "marker") })
	system.Check(system.Nothing("c2", "metrics"))
	s.Restart("c2", func(o *reconcile.Options) { o.ImportNamespaces = named })
	t.Cleanup(func() { s.Restart("c2") })
	system.Until("imported", func() error { return system.Imported("c2", "metrics", []string{"c1"}, "10.9.1.1") })
	system.Delete("c1", world.Export("metrics"), world.Service("metrics"), world.Endpoints(world.Service("metrics"), "", "10.9.1.1"))
	system.Until("gone", func() error { return system.Nothing("c2", "metrics") })
}

func namespaces(t *testing.T, selector string) (n reconcile.Namespaces) {
	t.Helper()
	if err := n.UnmarshalText([]byte(selector)); err != nil {
		t.Fatal(err)
	}
	return n
}
