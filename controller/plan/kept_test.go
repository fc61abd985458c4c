package plan

import (
	"testing"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
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

// TestImportOfCiliumIsLeftAlone is a regression test for three faults beside a real Cilium. The controller made a second derived Service
// before Cilium had named its own. It wrote both addresses of Cilium's Service, and Cilium wrote one. It set annotations that Cilium removed.
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
	w.settle(t)
	w.imp.Annotations = map[string]string{mcs.AnnotationCiliumFamilies: "IPv4", mcs.AnnotationDerivedService: "derived-abc"}
	w.services["derived-abc"] = others("derived-abc", "10.0.9.9")
	w.plansNothing(t, "while ips are the controller's")
	w.imp.Spec.IPs = []string{"10.0.9.9"}
	c := w.plan()
	if len(c.Delete) != 1 || c.Delete[0].Name != "derived-foo" || c.Import != nil {
		t.Errorf("planned %+v", c)
	}
}
