package rules

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/test/world"
)

// C1, C2, C20, C22, C24, C28, C29, C32 to C37: from the first export to the last unexport, in the cluster of the Service and in others.
func TestExportAppearsEverywhereAndDisappears(t *testing.T) {
	s := world.Three(t).Namespace()
	foo := world.Service("foo")
	s.Export("c1", foo, "10.9.1.1", "10.9.1.2")
	s.Everywhere("foo", []string{"c1"}, "10.9.1.1", "10.9.1.2")
	var still []func()
	for _, id := range s.IDs() {
		still = append(still, stays(s, id, "foo"))
		if got := s.MustImport(id, "foo").Status.EndpointSliceObjects; got != mcsv1beta1.EndpointSliceObjectsPresent {
			t.Errorf("C29: endpointSliceObjects is %q", got)
		}
	}
	s.Until("well", func() error { return s.Healthy("c1", "foo") })

	// A Service of the same name without an export, an export without a Service, and one whose Service is no Service of this cluster.
	s.Create("c2", world.Service("foo"), world.Endpoints(foo, "", "10.9.2.1"), world.Export("bar"))
	s.Export("c2", world.Service("external", func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalName, spec.Ports = corev1.ServiceTypeExternalName, "example.org", nil
	}))
	s.Until("C2, C4, C8: reported", func() error {
		return errors.Join(s.Condition("c2", "bar", "Valid", metav1.ConditionFalse, "NoService"), s.Condition("c2", "bar", "Ready", metav1.ConditionFalse, "Pending"),
			s.Condition("c2", "external", "Valid", metav1.ConditionFalse, "InvalidServiceType"), s.Condition("c2", "external", "Ready", metav1.ConditionFalse, "Failed"))
	})
	works(s, "later")
	s.Everywhere("later", []string{"c2"}, "10.9.2.9") // all have read c2 since
	s.Nowhere("bar")
	s.Nowhere("external")
	if err := s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1", "10.9.1.2"); err != nil {
		t.Error("C1:", err)
	}

	s.Create("c2", world.Export("foo"))
	s.Everywhere("foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.1.2", "10.9.2.1")
	s.Delete("c1", world.Export("foo"))
	s.Everywhere("foo", []string{"c2"}, "10.9.2.1") // C22
	for _, same := range still {
		same()
	}
	s.Delete("c2", foo)
	s.Nowhere("foo")
	s.Until("said", func() error { return s.Condition("c2", "foo", "Valid", metav1.ConditionFalse, "NoService") })
	s.Create("c2", world.Service("foo"))
	s.Until("a Service that comes after its export", func() error { return s.Imported("c3", "foo", []string{"c2"}, "10.9.2.1") })
	s.Delete("c2", world.Export("foo"))
	s.Nowhere("foo")
}

// TestServiceReplacedByForce is a regression test: `kubectl replace --force` deletes the only exporter's Service and creates it anew, its ServiceExport
// being there all the time. The import in the other cluster keeps its UID, its ips and its endpoints.
func TestServiceReplacedByForce(t *testing.T) {
	grace := func(o *reconcile.Options) { o.ServiceGrace = 0 } // as it is in production: a minute
	p := reads(t, 0, grace)
	p.Restart("c1", grace)
	svc := world.Service("foo")
	p.Export("c1", svc, "10.9.1.1")
	whole := func() error { return p.Imported("c2", "foo", []string{"c1"}, "10.9.1.1") }
	p.Until("imported", whole)
	still := stays(p, "c2", "foo")
	slice := world.Endpoints(svc, "", "10.9.1.1")
	slice.Namespace = p.Name
	p.Delete("c1", world.Service("foo"), slice)
	p.Until("the export reports it", func() error { return p.Condition("c1", "foo", "Valid", "False", "NoService") })
	works(p, "marker") // Both controllers have seen it by now.
	still()
	p.Check(whole())
	p.Create("c1", world.Service("foo"))
	p.Until("the export is ready", func() error { return p.Healthy("c1", "foo") })
	p.Create("c1", world.Endpoints(svc, "2", "10.9.1.2"))
	p.Until("the new endpoints", func() error { return p.Imported("c2", "foo", []string{"c1"}, "10.9.1.2") })
	still()
}
