package rules

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/world"
)

// An import that others created stays theirs: its content stays, it gets none of the clusterset's
// endpoints, and the export's message contains what to do.
func TestForeignImportIsLeftAlone(t *testing.T) {
	s := world.Three(t).Namespace()
	theirs := &mcsv1beta1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Name: "foo", Labels: map[string]string{mcs.LabelManagedBy: "somebody"}},
		Spec:       mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.Headless, Ports: []mcsv1beta1.ServicePort{{Port: 7}}},
	}
	slice := world.Endpoints(world.Service("foo"), "-theirs", "10.8.8.8")
	slice.Labels = map[string]string{mcsv1beta1.LabelServiceName: "foo", mcsv1beta1.LabelSourceCluster: "c1", discoveryv1.LabelManagedBy: "cilium"}
	s.Create("c1", theirs, slice)
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Until("said", func() error { return s.Condition("c1", "foo", "Ready", metav1.ConditionFalse, "Failed") })
	imp := s.MustImport("c1", "foo")
	if imp.Spec.Type != mcsv1beta1.Headless || imp.Spec.Ports[0].Port != 7 || imp.Labels[mcs.LabelManagedBy] != "somebody" || len(imp.Status.Clusters) > 0 {
		t.Errorf("it is %+v %+v", imp.Spec, imp.Status)
	}
	by, err := s.Cluster("c1").Imported(t.Context(), s.Key("foo"))
	if err != nil || len(by["c1"]) != 2 {
		t.Fatalf("its slices are %v: %v", by, err)
	}
	for _, one := range by["c1"] { // The other one describes the Service for the peers.
		if one.Name != slice.Name && (len(one.Endpoints) > 0 || one.Annotations[mcs.AnnotationTerms] == "") {
			t.Errorf("it got %+v", one)
		}
	}
	// Handed over by the label, it is ours; their slice stays.
	world.Edit(s, "c1", new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) { imp.Labels[mcs.LabelManagedBy] = mcs.ControllerName })
	s.Until("handed over", func() error { return s.Healthy("c1", "foo") })
	if live := world.Live(s, "c1", new(discoveryv1.EndpointSlice), slice.Name); len(live.Endpoints) != 1 || len(live.OwnerReferences) > 0 {
		t.Errorf("their slice is %+v", live)
	}
}
