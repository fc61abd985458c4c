package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		"a selector and another address": func(svc *corev1.Service) {
			svc.Spec.Selector, svc.Spec.ClusterIPs = map[string]string{"app": "foo"}, []string{"10.1.0.99"}
		},
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

// A ServiceExport is deleted and created again, as by `kubectl replace --force`. For a moment the cluster counts with
// what it had, and nothing is written. Its endpoints come and go with its slices.
func TestAnExportThatIsReplacedCostsNothing(t *testing.T) {
	for _, id := range []string{"c1", "c2"} {
		name := newName("c1", exporting(id, 0, 80, "10.1.0.1"))
		if id != "c1" {
			name.Members[0] = mirrored(name.Members[0])
		} else {
			name.Members = name.Members[:1]
		}
		name.settle(t)
		export, object := name.Members[0].Export, name.Export
		name.Members[0].Export, name.Export, name.Vacant = nil, nil, []string{id}
		if changes := Plan(name.state()); !changes.Empty() {
			t.Errorf("the export of %s is replaced, and the plan is not empty: %+v", id, changes)
		}
		name.Members[0].Export, name.Export, name.Vacant = export, object, nil
		name.settle(t)
		name.shows(t, id, 80, "10.1.0.1")
		name.Members[0].Export, name.Export = nil, nil // for longer
		if changes := Plan(name.state()); changes.DeleteImport == nil {
			t.Errorf("the export of %s is gone, and the import stays", id)
		}
	}
}

// Two clusters export one address. The copy of the one that is not chosen is terminating: kube-proxy, which keeps one of the two, never takes
// such a one instead of the other. Each keeps all of its endpoints, as its own ones are read by peers. A headless name needs nothing of that.
func TestNoStandbyCopyTakesAnAddress(t *testing.T) {
	for what, c := range map[string]struct {
		list string
		kind mcsv1beta1.ServiceImportType
		port int32 // of c2
		want string
	}{
		"here":         {"local, any", mcsv1beta1.ClusterSetIP, 80, "c1 ready, c2 terminating"},
		"there":        {"cluster=c2, any", mcsv1beta1.ClusterSetIP, 80, "c1 terminating, c2 ready"},
		"both":         {"any", mcsv1beta1.ClusterSetIP, 80, "c1 ready, c2 ready"},
		"another port": {"local, any", mcsv1beta1.ClusterSetIP, 81, "c1 ready, c2 off"},
		"headless":     {"local, any", mcsv1beta1.Headless, 80, "c1 ready, c2 ready"},
	} {
		t.Run(what, func(t *testing.T) {
			name := newName("c1")
			name.Members = nil
			for i, id := range []string{"c1", "c2"} {
				port := int32(80)
				if id == "c2" {
					port = c.port
				}
				m := exporting(id, i, port, "192.0.2.10")
				m.Service.Type = c.kind
				m.Slices[0].Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)}
				if m.Export.Preference.Clusters = c.list; id != "c1" {
					m = mirrored(m)
				}
				name.Members = append(name.Members, m)
			}
			name.settle(t)
			var got []string
			for _, slice := range name.slices {
				for _, e := range slice.Endpoints {
					is := "off"
					switch {
					case *e.Conditions.Ready:
						is = "ready"
					case *e.Conditions.Terminating:
						is = "terminating"
					}
					got = append(got, slice.Labels[mcsv1beta1.LabelSourceCluster]+" "+is)
				}
			}
			slices.Sort(got)
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("the copies are %q; want %q", text, c.want)
			}
		})
	}
}

// What a deleted Service has left behind is neither counted nor kept beside the endpoints of the Service that the controller makes
// under the name. A Service with a selector keeps its own.
func TestLeftoverEndpointsDoNotCountAsThisCluster(t *testing.T) {
	n := newNamed("")
	n.settle(t, func() {})
	left := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foo-abc", Labels: map[string]string{discoveryv1.LabelServiceName: "foo"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}}},
		Ports:     []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}},
	}
	left.CreationTimestamp = metav1.NewTime(n.state().Now.Add(-time.Hour))
	n.services["foo"].CreationTimestamp = n.state().Now
	st := n.state()
	st.Native.Local = []*discoveryv1.EndpointSlice{left}
	st.NativePreference = Plan(st).NativePreference
	st.Now = metav1.NewTime(st.Now.Add(time.Hour)) // The traffic returns to a better entry after a while.
	changes := Plan(st)
	if !slices.Equal(changes.Evict, []*discoveryv1.EndpointSlice{left}) || len(changes.UpdateSlices)+len(changes.KeepSlices) > 0 {
		t.Errorf("the leftover is not evicted, or others go on standby for it: evicted %v, updated %d", changes.Evict, len(changes.UpdateSlices))
	}
	left.CreationTimestamp = metav1.NewTime(st.Now.Add(time.Second)) // by a user who is about to take the Service over
	if changes := Plan(st); len(changes.Evict)+len(changes.UpdateSlices)+len(changes.KeepSlices) > 0 {
		t.Errorf("the endpoints that a user has added are deleted, or counted: %v", changes.Evict)
	}
	st.Native.Service = st.Native.Service.DeepCopy()
	st.Native.Service.Spec.Selector = map[string]string{"app": "foo"}
	if changes := Plan(st); len(changes.Evict) > 0 {
		t.Error("the endpoints of a user's pods are deleted")
	}
}

// C23: the addresses of an import that the controller made are those of its Service, whoever writes others.
func TestNobodyElseSetsTheAddresses(t *testing.T) {
	name := newName("c1", exporting("c1", 0, 80, "10.1.0.1"))
	name.settle(t)
	want := slices.Clone(name.imp.Spec.IPs)
	for _, ips := range [][]string{{"192.0.2.66"}, {want[0], "192.0.2.66"}, {"garbage"}, nil} {
		name.imp.Spec.IPs = ips
		name.settle(t)
		svc := name.services["derived-foo"]
		if !slices.Equal(name.imp.Spec.IPs, want) || svc.Spec.Type != corev1.ServiceTypeClusterIP || len(svc.Status.LoadBalancer.Ingress) > 0 {
			t.Errorf("after %v, the addresses are %v, and the Service is a %s with %v", ips, name.imp.Spec.IPs, svc.Spec.Type, svc.Status.LoadBalancer.Ingress)
		}
	}
}
