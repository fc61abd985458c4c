package plan

import (
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// ofCilium is an import as Cilium creates it: its annotation is there from the beginning.
func ofCilium(edit ...func(*mcsv1beta1.ServiceImport)) *mcsv1beta1.ServiceImport {
	imp := clusterSetImport("foo", edit...)
	imp.Annotations = map[string]string{mcs.AnnotationCiliumFamilies: "IPv4"}
	return imp
}

// plansNothing fails if the controller would write anything.
func (w *world) plansNothing(t *testing.T, when string) {
	t.Helper()
	c := w.plan()
	if c.Writes() > 0 || c.ImportStatus != nil || len(c.Events) > 0 {
		t.Errorf("%s: planned %+v", when, c)
	}
}

// TestImportOfCiliumIsLeftAlone is a regression test: beside a real Cilium, the controller made a second derived Service before Cilium had
// named its own, and wrote both addresses of Cilium's Service, of which Cilium wrote one.
func TestImportOfCiliumIsLeftAlone(t *testing.T) {
	w := newWorld(ofCilium())
	w.plansNothing(t, "created")
	w.imp.Annotations[mcs.AnnotationDerivedService] = "derived-abc"
	w.plansNothing(t, "without its Service")
	w.services["derived-abc"] = others("derived-abc", "10.0.9.9", "fd00::9")
	w.plansNothing(t, "with its Service")
	w.imp.Spec.IPs = []string{"10.0.9.9"}
	w.plansNothing(t, "with an address of one family")
	w.imp.Spec.Type, w.imp.Spec.IPs = mcsv1beta1.Headless, nil
	w.plansNothing(t, "headless")
}

// Cilium takes over an import that the controller had served.
func TestImportThatCiliumTakesOver(t *testing.T) {
	w := newWorld(clusterSetImport("foo"))
	w.slices = append(w.slices, sliceManagedBy("someone.example"))
	w.settle(t)
	if len(w.slices) != 2 {
		t.Fatalf("no copy of the slice: %v", w.slices)
	}
	w.imp.Annotations = map[string]string{mcs.AnnotationCiliumFamilies: "IPv4", mcs.AnnotationDerivedService: "derived-abc"}
	w.services["derived-abc"] = others("derived-abc", "10.0.9.9")
	w.plansNothing(t, "while ips are the controller's")
	w.imp.Spec.IPs = []string{"10.0.9.9"}
	c := w.plan()
	if len(c.Delete) != 1 || c.Delete[0].Name != "derived-foo" || c.Import != nil {
		t.Errorf("planned %+v", c)
	}
	w.settle(t)
	if len(w.slices) != 1 || w.svc().Name != "derived-abc" {
		t.Errorf("left are %v", w.slices)
	}
}

// A mark that somebody adds to an import of the controller costs neither endpoints nor the address. The
// import follows its exports as before.
func TestAMarkOnAnImportOfTheControllerChangesNothing(t *testing.T) {
	c := newName("c1", exporting("c1", 0, 80, "10.1.0.1"), mirrored(exporting("c2", 1, 80, "10.2.0.1")))
	c.settle(t)
	c.imp.Annotations[mcs.AnnotationCiliumFamilies] = "IPv4"
	c.imp.Annotations[mcs.AnnotationKosmosAddress] = "10.20.1.1"
	if changes := c.plan(); changes.Writes() > 0 || len(changes.Events) > 0 {
		t.Errorf("planned %+v", changes)
	}
	c.Members = c.Members[:1]
	c.settle(t)
	c.shows(t, "c1", 80, "10.1.0.1")
}

// An export whose import another implementation keeps is told so. Advice for the import of a user, such as
// the label of the controller, would do harm.
func TestExportBesideAnImportOfAnother(t *testing.T) {
	for keeper, edit := range map[string]func(*oneName){
		"Cilium":     func(c *oneName) { c.imp.Annotations = map[string]string{mcs.AnnotationCiliumFamilies: "IPv4"} },
		"Kosmos":     func(c *oneName) { c.imp.Annotations = map[string]string{mcs.AnnotationKosmosAddress: "10.20.1.1"} },
		"Karmada":    func(c *oneName) { c.imp.Labels = map[string]string{mcs.LabelKarmadaManaged: "true"} },
		"Submariner": func(c *oneName) { c.slices = append(c.slices, sliceManagedBy(mcs.SubmarinerSlices)) },
	} {
		c := newName("c1", exporting("c1", 0, 80, "10.1.0.1"))
		c.imp, c.imported = clusterSetImport("foo"), true
		edit(c)
		c.settle(t)
		ready := meta.FindStatusCondition(c.Export.Status.Conditions, "Ready")
		want := "ServiceImport foo is " + keeper + "'s, so this controller leaves it alone and exports no endpoints: export the name with one of the two systems only"
		if ready == nil || ready.Message != want {
			t.Errorf("%s: the condition is %+v", keeper, ready)
		}
		if slices.ContainsFunc(c.slices, func(slice *discoveryv1.EndpointSlice) bool { return ownership.OfSlice(slice) }) {
			t.Errorf("%s: a slice was added: %v", keeper, c.slices)
		}
	}
}

// keptBy are imports as other implementations keep them, beside Cilium's.
func keptBy() map[string]*world {
	aggregated := newWorld(clusterSetImport("foo"))
	aggregated.slices = []*discoveryv1.EndpointSlice{sliceManagedBy(mcs.SubmarinerSlices)}
	own := clusterSetImport("foo-default-c1", withIPs("10.0.7.7"))
	own.Labels = map[string]string{mcs.LabelSubmarinerNamespace: "default"}
	kosmos := clusterSetImport("foo")
	kosmos.Annotations = map[string]string{mcs.AnnotationKosmosAddress: "10.20.1.1"}
	return map[string]*world{"Submariner's": aggregated, "in Submariner's namespace": newWorld(own), "Kosmos'": newWorld(kosmos)}
}

// sliceManagedBy is a slice of the import foo.
func sliceManagedBy(manager string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foo-default-c2", Labels: map[string]string{
		mcsv1beta1.LabelServiceName: "foo", mcsv1beta1.LabelSourceCluster: "c2", discoveryv1.LabelManagedBy: manager}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.8.8"}}}}
}

func TestImportsOfOtherImplementationsAreLeftAlone(t *testing.T) {
	for name, w := range keptBy() {
		w.plansNothing(t, name)
		w.imp.Spec.Type, w.imp.Spec.IPs = mcsv1beta1.Headless, nil
		w.plansNothing(t, name+", headless")
	}
}

// An import has no mark before the other implementation has noticed it. The controller takes back what it wrote until then: otherwise
// clients are sent to a Service without endpoints.
func TestImportThatAnotherImplementationTakesOver(t *testing.T) {
	for name, mark := range map[string]func(*world){
		"Submariner": func(w *world) { w.slices = append(w.slices, sliceManagedBy(mcs.SubmarinerSlices)) },
		"Kosmos":     func(w *world) { w.imp.Annotations[mcs.AnnotationKosmosAddress] = "10.20.1.1" },
	} {
		w := newWorld(clusterSetImport("foo"))
		w.settle(t)
		if len(w.imp.Spec.IPs) == 0 || w.svc() == nil {
			t.Fatalf("%s: not served before", name)
		}
		mark(w)
		w.settle(t)
		if len(w.imp.Spec.IPs) > 0 || w.svc() != nil {
			t.Errorf("%s: ips %v, Service %v", name, w.imp.Spec.IPs, w.svc())
		}
		if all := w.imp.Status.Conditions; len(all) != 1 || all[0].Message != "kept by "+name {
			t.Errorf("%s: conditions %v", name, all)
		}
		w.plansNothing(t, name)
	}
}

// A controller that starts knows nothing of what it has reported: an import of Karmada's has no condition.
func TestARestartEmitsNoEventOfKarmadasImport(t *testing.T) {
	w := newWorld(clusterSetImport("foo", func(imp *mcsv1beta1.ServiceImport) { imp.Labels = map[string]string{mcs.LabelKarmadaManaged: "true"} }))
	w.services["derived-foo"] = others("derived-foo", "10.0.9.9")
	if c := w.plan(); len(c.Events) != 1 || c.Import == nil {
		t.Fatalf("planned %+v; want ips and their event", c)
	}
	w.settle(t)
	w.last = metav1.Condition{}
	w.plansNothing(t, "after a restart")
}
