package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// named is the home cluster c1, and c2 and c3, which export foo with a native name. Each has one
// endpoint.
type named struct {
	*oneName
	ready    map[string]bool
	list     string
	user     *corev1.Service // the Service foo of a user, or nil
	allowed  bool
	attached []*discoveryv1.EndpointSlice
	own      preference.Memory
}

func newNamed(list string) *named {
	n := &named{newName("c1"), map[string]bool{"c1": true, "c2": true, "c3": true}, list, nil, true, nil, preference.Memory{}}
	n.Export = nil
	n.update()
	return n
}

func usersFoo() *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foo"}}
	svc.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.1.0.9", ClusterIPs: []string{"10.1.0.9"}, Selector: map[string]string{"app": "foo"},
		Ports: []corev1.ServicePort{{Name: "http", Port: 8000, Protocol: corev1.ProtocolTCP}},
	}
	return svc
}

// update sets what the clusters report.
func (n *named) update() {
	n.Members = []merge.Member{{Cluster: "c1"}}
	for i, id := range []string{"c2", "c3"} {
		m := exporting(id, i, 80, fmt.Sprintf("10.%d.0.1", i+2))
		m.Slices[0].Endpoints[0].Hostname = new("pod-0")
		m.Slices[0].Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(n.ready[id]), Serving: new(n.ready[id]), Terminating: new(false)}
		m = mirrored(m)
		m.Export.Preference, m.Export.NativeName = preference.Texts{Clusters: n.list}, true
		n.Members = append(n.Members, m)
	}
}

// local returns the slice that Kubernetes makes for the user's Service.
func (n *named) local() []*discoveryv1.EndpointSlice {
	if n.user == nil || len(n.user.Spec.Selector) == 0 {
		return nil
	}
	return []*discoveryv1.EndpointSlice{{
		ObjectMeta: metav1.ObjectMeta{Name: "foo-abc", Labels: map[string]string{discoveryv1.LabelServiceName: "foo"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(n.ready["c1"])}}},
		Ports:     []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}},
	}}
}

func (n *named) state() observed.State {
	st := n.oneName.state()
	st.Native = &observed.Native{Allowed: n.allowed, Service: n.services["foo"], Slices: n.attached, Local: n.local()}
	st.NativePreference = n.own
	if n.user != nil {
		st.Native.Service = n.user
	}
	return st
}

// apply makes all writes of a plan, one at a time, and calls after after each.
func (n *named) apply(t *testing.T, c diff.Changes, after func()) {
	t.Helper()
	for _, write := range n.writesOf(c) {
		write()
		after()
	}
}

// writesOf are the writes of a plan: those of the attached slices one by one, that of the Service, and all others at once.
func (n *named) writesOf(c diff.Changes) (all []func()) {
	add := func(write func()) { all = append(all, write) }
	replace := func(old, with *discoveryv1.EndpointSlice) {
		n.attached = slices.Clone(n.attached)
		n.attached[slices.Index(n.attached, old)] = with
	}
	rest := c
	rest.CreateSlices, rest.UpdateSlices, rest.DeleteSlices, rest.KeepSlices = nil, nil, nil, nil
	for _, s := range c.CreateSlices {
		if s.Labels[mcs.LabelNativeOf] == "" {
			rest.CreateSlices = append(rest.CreateSlices, s)
			continue
		}
		add(func() { n.attached = append(slices.Clip(n.attached), s) })
	}
	for _, one := range c.KeepSlices {
		add(func() { replace(one.Slice, one.Kept(one.Slice)) })
	}
	for _, edit := range c.UpdateSlices {
		if !slices.Contains(n.attached, edit.Old) {
			rest.UpdateSlices = append(rest.UpdateSlices, edit)
			continue
		}
		add(func() { replace(edit.Old, edit.New) })
	}
	for _, gone := range c.DeleteSlices {
		if !slices.Contains(n.attached, gone) {
			rest.DeleteSlices = append(rest.DeleteSlices, gone)
			continue
		}
		add(func() {
			n.attached = slices.DeleteFunc(slices.Clone(n.attached), func(s *discoveryv1.EndpointSlice) bool { return s == gone })
		})
	}
	if native := c.Native; native != (diff.Native{}) {
		add(func() {
			switch {
			case native.Apply != nil && native.Have == nil:
				n.services["foo"] = allocated(native.Apply)
			case native.Apply != nil:
				n.services["foo"] = native.Apply
			case native.Delete != nil:
				delete(n.services, "foo")
			case native.Release != nil:
				n.user = n.user.DeepCopy()
				delete(n.user.Labels, mcs.LabelNativeOf)
			}
		})
	}
	rest.Native = diff.Native{}
	return append(all, func() { n.write(rest) })
}

func allocated(svc *corev1.Service) *corev1.Service {
	svc = svc.DeepCopy()
	if svc.Spec.ClusterIP == "" {
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "10.1.0.8", []string{"10.1.0.8"}
	}
	return svc
}

// settle plans and writes until nothing is missing. after is called after each write.
func (n *named) settle(t *testing.T, after func()) {
	t.Helper()
	for range 40 {
		changes := Plan(n.state())
		n.choice, n.own = changes.Preference, changes.NativePreference
		if changes.Empty() {
			return
		}
		n.apply(t, changes, after)
	}
	t.Fatalf("it plans forever: %+v", Plan(n.state()))
}

// used returns the clusters whose endpoints kube-proxy uses for Service foo: the ready ones, or else those that serve and are
// terminating.
func (n *named) used() string {
	var ready, terminating []string
	for _, s := range append(n.local(), n.attached...) {
		cluster := s.Labels[mcsv1beta1.LabelSourceCluster]
		if cluster == "" {
			cluster = "c1"
		}
		for _, e := range s.Endpoints {
			is := func(b *bool) bool { return b != nil && *b }
			switch c := e.Conditions; {
			case is(c.Ready):
				ready = append(ready, cluster)
			case is(c.Serving) && is(c.Terminating):
				terminating = append(terminating, cluster)
			}
		}
	}
	if len(ready) == 0 {
		ready = terminating
	}
	slices.Sort(ready)
	return strings.Join(ready, " ")
}

func (n *named) condition() string {
	c := meta.FindStatusCondition(n.imp.Status.Conditions, "NativeName")
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// The clusters that kube-proxy uses for the own name, for each combination of the local Service, the
// preference and the readiness.
func TestNativeNames(t *testing.T) {
	edited := func(edit func(*corev1.Service)) *corev1.Service {
		svc := usersFoo()
		edit(svc)
		return svc
	}
	answer := func(value string) *corev1.Service {
		return edited(func(svc *corev1.Service) { svc.Annotations = map[string]string{mcs.AnnotationNativeName: value} })
	}
	const attached, made = "True Attached", "True OwnService"
	for _, c := range []struct {
		name  string
		user  *corev1.Service
		list  string
		ready string
		used  string
		says  string
	}{
		{"no Service", nil, "", "c2 c3", "c2 c3", made},
		{"no Service, a list", nil, "cluster=c3, any", "c2 c3", "c3", made},
		{"no Service, the first unready", nil, "cluster=c3, any", "c2", "c2", made},
		{"no Service, nothing ready", nil, "", "", "", made},
		{"local first", usersFoo(), "", "c1 c2 c3", "c1", attached},
		{"local unready", usersFoo(), "", "c2 c3", "c2 c3", attached},
		{"local unready, then one", usersFoo(), "local, cluster=c3, any", "c2 c3", "c3", attached},
		{"local unready, then another", usersFoo(), "local, cluster=c3, any", "c2", "c2", attached},
		{"any", usersFoo(), "any", "c1 c2 c3", "c1 c2 c3", attached},
		{"never c2", usersFoo(), "local, cluster=c3", "c2", "", attached},
		{"others preferred", usersFoo(), "cluster=c2", "c1 c2 c3", "c1 c2", attached},
		{"a malformed list", usersFoo(), "nearby", "c1 c2 c3", "c1", attached},
		{"the Service refuses", answer("false"), "any", "c1 c2 c3", "c1", ""},
		{"the Service asks", answer("true"), "any", "c1 c2 c3", "c1 c2 c3", attached},
		{"another type", edited(func(svc *corev1.Service) { svc.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName} }), "", "c2 c3", "", "False UnsupportedService"},
		{"no port of the name", edited(func(svc *corev1.Service) { svc.Spec.Ports[0].Name = "web" }), "any", "c1 c2 c3", "c1", attached},
		{"another protocol", edited(func(svc *corev1.Service) { svc.Spec.Ports[0].Protocol = corev1.ProtocolUDP }), "any", "c1 c2 c3", "c1", attached},
		{"headless", edited(func(svc *corev1.Service) { svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "None", nil }), "", "c2 c3", "c2 c3", attached},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNamed(c.list)
			n.user = c.user
			for _, id := range []string{"c1", "c2", "c3"} {
				n.ready[id] = slices.Contains(strings.Fields(c.ready), id)
			}
			n.update()
			n.settle(t, func() {})
			equal(t, "used", n.used(), c.used)
			equal(t, "the condition", n.condition(), c.says)
			if (n.services["foo"] != nil) != (c.user == nil) {
				t.Errorf("the controller's Service is %+v", n.services["foo"])
			}
			if c.user != nil && len(n.attached) > 0 && n.attached[0].Endpoints[0].Hostname != nil {
				t.Error("a pod of another cluster has the name of a local one")
			}
			n.allowed = false
			n.settle(t, func() {})
			if says := n.condition(); c.says != "" && c.name != "the Service asks" && (len(n.attached) > 0 || n.services["foo"] != nil || says != "False NotAllowed") {
				t.Errorf("not allowed, there are %d slices and %+v: %s", len(n.attached), n.services["foo"], says)
			}
			n.later += time.Hour
		})
	}
}

// For random histories of readiness, Services and restarts: while another cluster of the list has a
// ready endpoint, kube-proxy has an endpoint to use after each write, and when the last local one
// turns unready, before any write. At the end there is nothing of the own name that nobody asked for.
func TestRandomHistoriesOfNativeNames(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		n := newNamed([]string{"", "any", "local, cluster=c3, any"}[seed%3])
		n.settle(t, func() {})
		for range 60 {
			n.later += time.Duration(random.IntN(6000)) * time.Millisecond
			remote := n.ready["c2"] || n.ready["c3"]
			switch random.IntN(8) {
			case 0: // A user's Service comes, over that of the controller if there is one.
				if n.user == nil {
					n.user = usersFoo()
					if svc := n.services["foo"]; svc != nil {
						n.user.Labels = svc.Labels
					}
					delete(n.services, "foo")
				}
			case 1:
				n.user = nil
			case 2:
				n.choice, n.own = preference.Memory{}, preference.Memory{} // a restart
			case 3:
				id := []string{"c2", "c3"}[random.IntN(2)]
				n.ready[id] = !n.ready[id]
				n.update()
				remote = remote && (n.ready["c2"] || n.ready["c3"])
				n.settle(t, func() {})
			default:
				n.ready["c1"] = !n.ready["c1"]
			}
			check := func() {
				if n.used() == "" && remote && (n.user != nil || n.services["foo"] != nil) {
					t.Fatalf("seed %d: nothing is used, with %v; attached is %+v", seed, n.ready, n.attached)
				}
			}
			check()
			n.settle(t, check)
			if len(n.attached) != 2 {
				t.Fatalf("seed %d: there are %d attached slices for 2 of other clusters", seed, len(n.attached))
			}
			if n.user != nil && ownership.TakenOver(n.user) {
				t.Fatalf("seed %d: the user's Service has the label of the controller", seed)
			}
		}
		for i := range n.Members {
			if n.Members[i].Export != nil {
				n.Members[i].Export.NativeName = false
			}
		}
		n.settle(t, func() {})
		if len(n.attached) > 0 || n.services["foo"] != nil || n.condition() != "" {
			t.Fatalf("seed %d: the annotation is gone, and there are %d slices and %+v", seed, len(n.attached), n.services["foo"])
		}
	}
}
