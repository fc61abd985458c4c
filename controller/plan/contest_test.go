package plan

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// TestContestedServiceFieldsBlockNothing is a regression test: with an API server that does not
// know trafficDistribution, or a webhook that sets it, every plan contained the patch of the
// Service, and so no condition was written.
func TestContestedServiceFieldsBlockNothing(t *testing.T) {
	for what, server := range map[string]*string{"drops it": nil, "sets another": new("PreferSameNode")} {
		exporter := exporting("c1", 1, 80, "10.1.0.1")
		exporter.Service.Distribution = corev1.ServiceTrafficDistributionPreferClose
		c := newName("c1", exporter)
		for range 10 {
			changes := Plan(c.state())
			if written := changes.Written(); written[contested.FieldDistribution] != "" {
				c.contested = written // as package apply detects it
			}
			c.write(changes)
			if svc := c.services["derived-foo"]; svc != nil {
				svc.Spec.TrafficDistribution = server
			}
		}
		if changes := Plan(c.state()); !changes.Empty() {
			t.Errorf("a server that %s: planned %+v", what, changes)
		}
		c.says(t, string(contested.FieldDistribution))
		if !meta.IsStatusConditionTrue(c.Export.Status.Conditions, "Ready") {
			t.Errorf("the export has %+v", c.Export.Status.Conditions)
		}
		// Another value is written, and so is another field.
		c.Members[0].Service.Distribution = ""
		c.Members[0].Service.Ports[0].Port = 81
		c.write(Plan(c.state()))
		if changes := Plan(c.state()); changes.Service == nil || changes.Service.New.Spec.Ports[0].Port != 81 {
			t.Errorf("a server that %s: the new port is not written: %+v", what, changes.Service)
		}
	}
}

// TestContestedMetadataBlocksNothing is a regression test: a webhook removes or sets labels or
// annotations of an import.
func TestContestedMetadataBlocksNothing(t *testing.T) {
	for what, webhook := range map[string]func(*mcsv1beta1.ServiceImport){
		"drops the record":                  func(imp *mcsv1beta1.ServiceImport) { delete(imp.Annotations, mcs.AnnotationExports) },
		"drops the addresses":               func(imp *mcsv1beta1.ServiceImport) { delete(imp.Annotations, mcs.AnnotationClusterIPs) },
		"drops all annotations":             func(imp *mcsv1beta1.ServiceImport) { imp.Annotations = nil },
		"keeps a label that is to go":       func(imp *mcsv1beta1.ServiceImport) { imp.Labels["tier"] = "blue" },
		"sets another value of a label":     func(imp *mcsv1beta1.ServiceImport) { imp.Labels["team"] = "blue" },
		"drops a label":                     func(imp *mcsv1beta1.ServiceImport) { delete(imp.Labels, "team") },
		"drops a label and all annotations": func(imp *mcsv1beta1.ServiceImport) { delete(imp.Labels, "team"); imp.Annotations = nil },
	} {
		exporter := exporting("c1", 1, 80, "10.1.0.1")
		exporter.Export.Labels = map[string]string{"team": "red"}
		c, held := newName("c1", exporter), contested.Fields{}
		for range 12 {
			changes := Plan(c.state())
			if written := changes.Written(); changes.Import != nil && c.imp != nil {
				wanted := changes.Import.New.DeepCopy()
				webhook(wanted)
				if equality.Semantic.DeepEqual(c.imp.ObjectMeta, wanted.ObjectMeta) && equality.Semantic.DeepEqual(c.imp.Spec, wanted.Spec) {
					for field, value := range written { // as package apply detects it
						held[field] = value
					}
					c.contested = held
				}
			}
			c.write(changes)
			if c.imp != nil {
				webhook(c.imp)
			}
		}
		if changes := Plan(c.state()); !changes.Empty() {
			t.Errorf("a webhook that %s: planned %+v", what, changes)
		}
		if !meta.IsStatusConditionTrue(c.Export.Status.Conditions, "Ready") || len(c.imp.Spec.IPs) == 0 {
			t.Errorf("a webhook that %s: the export has %+v, the import %v", what, c.Export.Status.Conditions, c.imp.Spec.IPs)
		}
	}
}

// TestContestedIPsAreLeftAlone is a regression test: Karmada without deploy/karmada empties the ips
// of an import that it manages.
func TestContestedIPsAreLeftAlone(t *testing.T) {
	w := newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Labels = map[string]string{mcs.LabelKarmadaManaged: "true"} }))
	w.services["derived-foo"] = others("derived-foo", "10.0.9.9")
	c := w.plan()
	if c.Import == nil || c.Written()[contested.FieldIPs] == "" {
		t.Fatalf("planned %+v", c)
	}
	w.contested = c.Written()
	c = w.plan()
	if !c.Empty() || c.Ready.Reason != desired.ReasonContested || !strings.Contains(c.Ready.Message, "10.0.9.9") {
		t.Errorf("planned while contested: %+v", c)
	}
	w.last, w.contested = c.Ready, nil
	if c = w.plan(); c.Import == nil || len(c.Events) > 0 {
		t.Errorf("planned after the pause: %+v; want another attempt without an event", c)
	}
	w.last, w.contested = metav1.Condition{}, c.Written()
	w.services["derived-foo"] = others("derived-foo", "10.0.9.8")
	if c = w.plan(); c.Import == nil {
		t.Error("another value is not written")
	}
}

// The spec of an import that the controller owns is left alone if another writer sets it back.
// Everything that follows from the spec stays unchanged.
func TestContestedSpecIsLeftAlone(t *testing.T) {
	c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"))
	c.settle(t)
	c.Members[0] = exporting("c1", 1, 8080, "10.1.0.1")
	changes := Plan(c.state())
	c.contested = changes.Written()
	c.settle(t)
	equal(t, "port", c.imp.Spec.Ports[0].Port, int32(80))
	c.says(t, string(contested.FieldImport))
	c.contested = nil
	c.settle(t)
	equal(t, "port", c.imp.Spec.Ports[0].Port, int32(8080))
}

// TestReadyOfAnotherWriterStays is a regression test: Cilium sets Ready on its imports at each event.
// The controller and Cilium both wrote the condition, without end.
func TestReadyOfAnotherWriterStays(t *testing.T) {
	w := newWorld(clusterSetImport("foo"))
	w.imp.Annotations = map[string]string{mcs.AnnotationDerivedService: "derived-abc"}
	w.services["derived-abc"] = others("derived-abc", "10.0.9.9")
	theirs := metav1.Condition{Type: "Ready", Status: "True", Reason: "Ready", Message: "ServiceImport is ready", LastTransitionTime: noon}
	w.imp.Status.Conditions = []metav1.Condition{theirs}
	w.readyByOthers = true
	for range 5 {
		c := w.plan()
		if c.ImportStatus != nil || len(c.Events) > 0 {
			t.Fatalf("planned %+v", c)
		}
		w.apply(c, 100)
	}
	equal(t, "ips", w.imp.Spec.IPs, []string{"10.0.9.9"})
	equal(t, "condition", w.imp.Status.Conditions, []metav1.Condition{theirs})
}

// TestTakenAddressesOfOthersServicesLeaveIPs is a regression test: the Service that ips followed
// was deleted, and another Service got its address. DNS still answered with that address.
func TestTakenAddressesOfOthersServicesLeaveIPs(t *testing.T) {
	for what, edit := range map[string]func(*mcsv1beta1.ServiceImport){
		"an import of Karmada's": func(i *mcsv1beta1.ServiceImport) { i.Labels = map[string]string{mcs.LabelKarmadaManaged: "true"} },
		"an import whose annotation names theirs": func(i *mcsv1beta1.ServiceImport) {
			i.Annotations = map[string]string{mcs.AnnotationDerivedService: "derived-foo"}
		},
	} {
		w := newWorld(clusterSetImport("foo", edit))
		w.services["derived-foo"] = others("derived-foo", "10.0.9.9")
		w.settle(t)
		equal(t, what, w.imp.Spec.IPs, []string{"10.0.9.9"})
		delete(w.services, "derived-foo")
		w.services["another"] = others("another", "10.0.9.9")
		c := w.plan()
		if c.Import == nil || len(c.Import.New.Spec.IPs) > 0 {
			t.Errorf("%s: planned %+v", what, c)
		}
	}
}

// A status that another writer sets back is left alone, and blocks nothing else.
func TestContestedStatusBlocksNothing(t *testing.T) {
	c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"))
	c.settle(t)
	c.contested = contested.Fields{}
	for _, rival := range []func(){
		func() { c.imp.Status.Clusters = nil },
		func() { c.Export.Status.Conditions = nil },
	} {
		rival()
		changes := Plan(c.state())
		maps.Copy(c.contested, changes.Written())
		if changes = Plan(c.state()); !changes.Empty() {
			t.Errorf("planned %+v", changes)
		}
	}
	// Other values are written.
	c.Members[0] = exporting("c1", 1, 80, "10.1.0.1")
	c.Members = append(c.Members, mirrored(exporting("c2", 2, 81, "10.2.0.1")))
	c.settle(t)
	c.shows(t, "c1,c2", 80, "10.1.0.1", "10.2.0.1")
	equal(t, "conflict", meta.FindStatusCondition(c.Export.Status.Conditions, "Conflict").Reason, "PortConflict")
}

// TestContestedTypeBlocksNothing is a regression test: another writer sets the derived Service's
// type back, while the import has a user's addresses, which need the type LoadBalancer. Each pass
// wrote the type again, as fast as it was set back.
func TestContestedTypeBlocksNothing(t *testing.T) {
	w := newWorld(clusterSetImport("foo", func(i *mcsv1beta1.ServiceImport) { i.Spec.IPs = []string{"192.0.2.7"} }))
	revert := func() {
		if svc := w.services["derived-foo"]; svc != nil {
			svc.Spec.Type, svc.Spec.LoadBalancerClass, svc.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeClusterIP, nil, nil
			svc.Spec.ExternalTrafficPolicy, svc.Status = "", corev1.ServiceStatus{}
		}
	}
	for range 10 {
		changes := w.plan()
		if written := changes.Written(); written[contested.FieldType] != "" {
			w.contested = written // as package reconcile detects it
		}
		w.apply(changes, 100)
		revert()
	}
	c := w.plan()
	if !c.Empty() || c.Ready.Status != metav1.ConditionTrue || !strings.Contains(c.Ready.Message, string(contested.FieldType)) {
		t.Errorf("planned while contested: %+v", c)
	}
	// A Service with an address cannot keep the type ExternalName.
	w.services["derived-foo"].Spec.Type, w.services["derived-foo"].Spec.ExternalName = corev1.ServiceTypeExternalName, "elsewhere.example"
	if c = w.plan(); c.Service == nil || c.Service.New.Spec.Type == corev1.ServiceTypeExternalName {
		t.Errorf("a name elsewhere is left alone: %+v", c.Service)
	}
}

// TestContestedFamiliesBlockNothing is a regression test: a server or a webhook drops ipFamilies
// and keeps ips. The patch of the families alone was planned in every pass, and no condition was
// ever written.
func TestContestedFamiliesBlockNothing(t *testing.T) {
	c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"))
	for range 10 {
		changes := Plan(c.state())
		if changes.Import != nil && c.imp != nil && changes.Import.Old.Spec.IPFamilies == nil && slices.Equal(changes.Import.Old.Spec.IPs, changes.Import.New.Spec.IPs) {
			c.contested = changes.Written() // as package apply detects it
		}
		c.write(changes)
		if c.imp != nil {
			c.imp.Spec.IPFamilies = nil
		}
	}
	if changes := Plan(c.state()); !changes.Empty() || len(c.imp.Spec.IPs) == 0 {
		t.Errorf("planned %+v with ips %v", changes, c.imp.Spec.IPs)
	}
	c.says(t, string(contested.FieldIPFamilies))
	if !meta.IsStatusConditionTrue(c.Export.Status.Conditions, "Ready") {
		t.Errorf("the export has %+v", c.Export.Status.Conditions)
	}
}
