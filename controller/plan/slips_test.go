package plan

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// One mark of an object is overwritten or lost: by a policy that labels all Services, by `kubectl delete --cascade=orphan`, by a restore
// from a backup. The name keeps its address and its endpoints, and the mark comes back.
func TestALostMarkCostsNothing(t *testing.T) {
	for what, c := range map[string]struct {
		do   func(*oneName, *corev1.Service)
		want string // the address, if it is another one
	}{
		"the Service's label is removed":     {func(_ *oneName, svc *corev1.Service) { svc.Labels = nil }, ""},
		"the Service's label is overwritten": {func(_ *oneName, svc *corev1.Service) { svc.Labels[mcs.LabelManagedBy] = "Helm" }, ""},
		"the import's label is overwritten":  {func(c *oneName, _ *corev1.Service) { c.imp.Labels[mcs.LabelManagedBy] = "Helm" }, ""},
		"the import's labels are removed":    {func(c *oneName, _ *corev1.Service) { c.imp.Labels = nil }, ""},
		"the import's record is removed":     {func(c *oneName, _ *corev1.Service) { delete(c.imp.Annotations, mcs.AnnotationExports) }, ""},
		"the import is deleted, without its dependents": {func(c *oneName, svc *corev1.Service) {
			c.imported = false
			orphan(c, svc)
		}, ""},
		"import and Service are restored, the Service with another address": {func(c *oneName, svc *corev1.Service) {
			orphan(c, svc)
			svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "10.0.0.77", []string{"10.0.0.77"}
			c.imp.UID, c.imp.Status = "u2", mcsv1beta1.ServiceImportStatus{}
		}, "10.0.0.77"},
	} {
		t.Run(what, func(t *testing.T) {
			name := newName("c1", exporting("c1", 0, 80, "10.1.0.1"), publishing(exporting("c2", 1, 80, "10.2.0.1")))
			name.settle(t)
			svc := name.services["derived-foo"]
			want := slices.Clone(name.imp.Spec.IPs)
			if c.want != "" {
				want = []string{c.want}
			}
			c.do(name, svc)
			name.settle(t)
			if name.ready() != "True/Ready" || !slices.Equal(name.imp.Spec.IPs, want) {
				t.Errorf("%s with the addresses %v; want True/Ready with %v: %s", name.ready(), name.imp.Spec.IPs, want, name.message())
			}
			svc = name.services["derived-foo"]
			if !slices.Contains(ownership.OwnerImports(svc), "foo") || name.imp.Labels[mcs.LabelManagedBy] != mcs.ControllerName {
				t.Errorf("the marks are the labels %v and the owners %v, and on the import %v", svc.Labels, svc.OwnerReferences, name.imp.Labels)
			}
			name.shows(t, "c1,c2", 80, "10.1.0.1", "10.2.0.1")
		})
	}
}

func orphan(c *oneName, svc *corev1.Service) {
	svc.OwnerReferences = nil
	for _, slice := range c.slices {
		slice.OwnerReferences = nil
	}
}

// A Service with the derived name that has pods, no address or another file that describes it is somebody else's, also with one of the
// marks.
func TestOneMarkIsNotEnoughForEveryService(t *testing.T) {
	for what, change := range map[string]func(*corev1.Service){
		"a selector":   func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"app": "foo"} },
		"headless":     func(svc *corev1.Service) { svc.Spec.ClusterIP = corev1.ClusterIPNone },
		"another host": func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeExternalName },
		"applied": func(svc *corev1.Service) {
			svc.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}
		},
		"of Karmada":    func(svc *corev1.Service) { svc.Labels[mcs.LabelKarmadaManaged] = "true" },
		"another name":  func(svc *corev1.Service) { svc.Name = "derived-bar" },
		"another owner": func(svc *corev1.Service) { svc.OwnerReferences[0].Name = "bar" },
	} {
		for _, lost := range []string{"label", "owner"} {
			c := newName("c1", exporting("c1", 0, 80, "10.1.0.1"))
			c.settle(t)
			svc := c.services["derived-foo"].DeepCopy()
			switch {
			case lost == "label":
				svc.Labels = map[string]string{}
			case what != "another owner":
				svc.OwnerReferences = nil
			}
			if what != "another owner" && !ownership.Derived(c.imp, svc) {
				t.Errorf("without its %s the Service is not the import's", lost)
			}
			change(svc)
			if ownership.Derived(c.imp, svc) {
				t.Errorf("%s, without the %s: the Service is the import's", what, lost)
			}
		}
	}
}

// A Service with a selector is exported before Kubernetes has made its first slice, or where nothing makes slices: it is described to the
// peers at once. What is there of a Service that is being replaced stays.
func TestANewServiceWithoutSlicesIsPublishedAtOnce(t *testing.T) {
	m := exporting("c1", 0, 80, "10.1.0.1")
	source := m.Slices
	m.Slices = nil
	c := newName("c1", m)
	c.Vacant = []string{"c1"}
	c.settle(t)
	if len(c.slices) != 1 || c.slices[0].Annotations[mcs.AnnotationTerms] == "" {
		t.Fatalf("the slices are %v, want one with the description of the Service", c.slices)
	}
	c.Vacant, c.Members[0].Slices = nil, source
	c.settle(t)
	c.shows(t, "c1", 80, "10.1.0.1")
	c.Vacant, c.Members[0].Slices = []string{"c1"}, nil
	c.settle(t)
	c.shows(t, "c1", 80, "10.1.0.1")
}

// Ready pods that lack the named target port are in a slice without ports, and a slice that somebody wrote can have other names: no port of
// the Service leads to them. A preferred cluster that has only such endpoints has none.
func TestEndpointsThatNoPortLeadsToAreNotReady(t *testing.T) {
	for what, ports := range map[string][]discoveryv1.EndpointPort{
		"no ports":      nil,
		"another name":  {{Name: new("web"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}},
		"without names": {{Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}},
	} {
		home, other := exporting("c1", 0, 80, "10.1.0.1"), exporting("c2", 1, 80, "10.2.0.1")
		home.Slices[0].Ports = ports
		other = mirrored(other)
		home.Export.Preference, other.Export.Preference = preference.Texts{Clusters: "local, any"}, preference.Texts{Clusters: "local, any"}
		c := newName("c1", home, other)
		c.settle(t)
		for _, slice := range c.slices {
			if slice.Labels[mcsv1beta1.LabelSourceCluster] == "c2" && preference.OnStandby(slice) {
				t.Errorf("%s: the traffic does not go to c2", what)
			}
		}
	}
}
