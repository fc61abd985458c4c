package apiserver

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

var (
	histories = flag.Int("histories", 200, "how many random histories are compared with a kube-apiserver")
	firstSeed = flag.Uint64("first-seed", 1, "the seed of the first one")
)

// request is one of a history: how it is told, and what it does.
type request struct {
	text string
	do   do
}

// TestRandomRequests sends the requests of a seed to a kube-apiserver and to a Server, and compares each answer, and what watches of the
// namespace were told meanwhile.
// Custom resources are valid and have a spec: a Server does not know their schemas, nor what is empty from what is absent.
func TestRandomRequests(t *testing.T) {
	config := shared.Cluster(t).Config
	server := New(Options{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}})
	sides := [2]*side{newSide(t, config), newSide(t, &rest.Config{Host: "http://memory", Transport: RoundTripper{server}, QPS: -1})}
	for seed := *firstSeed; seed < *firstSeed+uint64(*histories); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			requests := randomRequests(rand.New(rand.NewPCG(seed, 0)))
			var told [2]func() string
			for i, s := range sides {
				s.last, told[i] = map[string]client.Object{}, s.watch(t)
			}
			for i, r := range requests {
				if real, memory := sides[0].answer(r.do), sides[1].answer(r.do); real != memory {
					t.Errorf("after %s\n%s\n(-kube-apiserver +in memory):\n%s", tell(requests[:i]), r.text, cmp.Diff(real, memory))
					break
				}
			}
			for _, s := range sides {
				s.clear(t)
			}
			if real, memory := told[0](), told[1](); !t.Failed() && real != memory {
				t.Errorf("after %s\nwatches were told (-kube-apiserver +in memory):\n%s", tell(requests), cmp.Diff(real, memory))
			}
		})
	}
}

func tell(requests []request) string {
	var text strings.Builder
	for _, r := range requests {
		fmt.Fprintf(&text, "\n  %s", r.text)
	}
	return text.String()
}

// subject is a kind that histories are about.
type subject struct {
	list    client.ObjectList
	object  func(name string) client.Object
	edits   []edited
	patches []string // merge patches of the object, and of its status
	status  []string
	applied []string // what is applied
	builtin bool     // a strategic merge patch is possible
}

// edited is a change that somebody makes to an object.
type edited struct {
	text string
	edit func(client.Object)
}

// of is an edit of one kind.
func of[T client.Object](text string, edit func(T)) edited {
	return edited{text, func(o client.Object) { edit(o.(T)) }}
}

// anywhere are the edits and patches of every kind.
var (
	anywhere = []edited{
		{"no change", func(client.Object) {}},
		{"label a=1", func(o client.Object) { o.SetLabels(map[string]string{"a": "1"}) }},
		{"label a=2, b=1", func(o client.Object) { o.SetLabels(map[string]string{"a": "2", "b": "1"}) }},
		{"no labels", func(o client.Object) { o.SetLabels(nil) }},
		{"annotation", func(o client.Object) { o.SetAnnotations(map[string]string{"note": "x"}) }},
		{"finalizer", func(o client.Object) { o.SetFinalizers([]string{"example.com/kept"}) }},
		{"no finalizer", func(o client.Object) { o.SetFinalizers(nil) }},
		{"owner", func(o client.Object) {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "other", UID: "00000000-0000-4000-8000-000000000001"}})
		}},
		{"another generation", func(o client.Object) { o.SetGeneration(17) }},
		{"a creation time", func(o client.Object) { o.SetCreationTimestamp(metav1.Unix(1, 0)) }},
	}
	patchedAnywhere = []string{
		`{"metadata": {"labels": {"a": "1"}}}`, `{"metadata": {"labels": {"a": null}}}`, `{"metadata": {"labels": null}}`, `{"metadata": {"annotations": {"note": "y"}}}`,
		`{"metadata": {"finalizers": ["example.com/kept"]}}`, `{"metadata": {"finalizers": null}}`, `{}`, `{"metadata": {"resourceVersion": "1"}}`,
		`{"metadata": {"uid": "00000000-0000-4000-8000-000000000009"}}`,
	}
)

func service(text string, edit func(*corev1.ServiceSpec)) edited {
	return of(text, func(svc *corev1.Service) { edit(&svc.Spec) })
}

var subjects = []*subject{
	{
		list: &corev1.ServiceList{}, builtin: true,
		object: func(name string) client.Object {
			return object(new(corev1.Service), name, ports(corev1.ServicePort{Name: "http", Port: 80}))
		},
		edits: []edited{
			service("two ports", func(s *corev1.ServiceSpec) {
				s.Ports = []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}
			}),
			service("appProtocol", func(s *corev1.ServiceSpec) { s.Ports[0].AppProtocol = new("http") }),
			service("selector", func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"app": "foo"} }),
			service("no selector", func(s *corev1.ServiceSpec) { s.Selector = nil }),
			service("affinity", func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP }),
			service("no affinity", func(s *corev1.ServiceSpec) {
				s.SessionAffinity, s.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
			}),
			service("internalTrafficPolicy", func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal) }),
			service("trafficDistribution", func(s *corev1.ServiceSpec) {
				s.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameZone)
			}),
			service("publishNotReadyAddresses", func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true }),
		},
		patches: []string{
			`{"spec": {"sessionAffinity": "ClientIP"}}`, `{"spec": {"sessionAffinity": "None"}}`, `{"spec": {"ports": [{"name": "web", "port": 81}]}}`, `{"spec": {"selector": {"app": "bar"}}}`,
			`{"spec": {"clusterIP": "10.0.0.9"}}`, `{"spec": {"externalIPs": ["192.0.2.1"]}}`,
		},
		status:  []string{`{"status": {"conditions": [{"type": "A", "status": "True", "reason": "B", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`, `{"status": {}}`},
		applied: []string{`"spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}`, `"spec": {"sessionAffinity": "None"}`},
	},
	{
		list: &discoveryv1.EndpointSliceList{}, builtin: true,
		object: func(name string) client.Object {
			return object(new(discoveryv1.EndpointSlice), name, func(s *discoveryv1.EndpointSlice) {
				s.AddressType, s.Endpoints = discoveryv1.AddressTypeIPv4, []discoveryv1.Endpoint{{Addresses: []string{"10.9.1.1"}}}
				s.Ports = []discoveryv1.EndpointPort{{Port: new(int32(8080))}}
			})
		},
		edits: []edited{
			of("no endpoints", func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil }),
			of("two endpoints", func(s *discoveryv1.EndpointSlice) {
				s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.9.1.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}, {Addresses: []string{"10.9.1.2"}, Zone: new("a")}}
			}),
			of("loopback, link-local and no address", func(s *discoveryv1.EndpointSlice) {
				s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}, {Addresses: []string{"169.254.169.254"}}, {Addresses: []string{"0.0.0.0"}}, {Addresses: []string{"224.0.0.1"}}, {Addresses: []string{"10.9.1.256"}}, {}}
			}),
			of("a long host name", func(s *discoveryv1.EndpointSlice) {
				s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.9.1.1"}, Hostname: new(strings.Repeat("x", 64))}}
			}),
			of("no ports", func(s *discoveryv1.EndpointSlice) { s.Ports = nil }),
			of("another address family", func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 }),
		},
		patches: []string{`{"endpoints": [{"addresses": ["10.9.1.7"], "hostname": "pod-0"}]}`, `{"ports": [{"name": "http", "port": 80}]}`},
		status:  []string{`{}`},
		applied: []string{`"addressType": "IPv4", "endpoints": [{"addresses": ["10.9.1.3"]}]`},
	},
	{
		list: &mcsv1beta1.ServiceImportList{},
		object: func(name string) client.Object {
			return object(new(mcsv1beta1.ServiceImport), name, func(i *mcsv1beta1.ServiceImport) {
				i.Spec = mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}}
			})
		},
		edits: []edited{
			of("ips", func(i *mcsv1beta1.ServiceImport) { i.Spec.IPs = []string{"10.0.0.5"} }),
			of("headless", func(i *mcsv1beta1.ServiceImport) { i.Spec.Type = mcsv1beta1.Headless }),
			of("status", func(i *mcsv1beta1.ServiceImport) { i.Status.Clusters = []mcsv1beta1.ClusterStatus{{Cluster: "a"}} }),
		},
		patches: []string{`{"spec": {"ips": ["10.0.0.6"]}}`, `{"spec": {"ips": null}}`, `{"spec": {"sessionAffinity": "ClientIP"}}`, `{"status": {"clusters": [{"cluster": "b"}]}}`},
		status:  []string{`{"status": {"clusters": [{"cluster": "c"}]}}`, `{"spec": {"type": "Headless"}}`, `{"metadata": {"labels": {"a": "9"}}}`},
		applied: []string{`"spec": {"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]}`},
	},
	{
		list:   &mcsv1beta1.ServiceExportList{},
		object: func(name string) client.Object { return object(new(mcsv1beta1.ServiceExport), name) },
		edits: []edited{
			of("exported labels", func(e *mcsv1beta1.ServiceExport) { e.Spec.ExportedLabels = map[string]string{"team": "shop"} }),
		},
		patches: []string{`{"spec": {"exportedAnnotations": {"note": "1"}}}`},
		status:  []string{`{"status": {"conditions": [{"type": "Valid", "status": "True", "reason": "Valid", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`},
		applied: []string{`"spec": {"exportedLabels": {"team": "shop"}}`},
	},
	{
		list: &corev1.SecretList{}, builtin: true,
		object: func(name string) client.Object {
			return object(new(corev1.Secret), name, func(s *corev1.Secret) { s.StringData = map[string]string{"token": "1"} })
		},
		edits:   []edited{of("data", func(s *corev1.Secret) { s.Data = map[string][]byte{"token": []byte("2")} })},
		patches: []string{`{"stringData": {"token": "3"}}`, `{"data": {"token": null}}`, `{"type": "example.com/other"}`},
		status:  []string{`{}`},
		applied: []string{`"data": {"token": "Mw=="}`},
	},
	{
		list: &coordinationv1.LeaseList{}, builtin: true,
		object: func(name string) client.Object {
			return object(new(coordinationv1.Lease), name, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("a") })
		},
		edits:   []edited{of("holder", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("b") })},
		patches: []string{`{"spec": {"holderIdentity": "c", "leaseDurationSeconds": 15}}`},
		status:  []string{`{}`},
		applied: []string{`"spec": {"holderIdentity": "d"}`},
	},
}

// randomRequests are 20 requests of two or three names each, most of one kind.
func randomRequests(r *rand.Rand) (requests []request) {
	main := subjects[r.IntN(len(subjects))]
	for range 20 {
		k := main
		if r.IntN(4) == 0 {
			k = subjects[r.IntN(len(subjects))]
		}
		requests = append(requests, k.random(r))
	}
	return requests
}

func choose[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// random is a request about one object of the kind.
func (k *subject) random(r *rand.Rand) request {
	o := k.object(choose(r, "foo", "foo", "bar"))
	name := fmt.Sprintf("%T %s", o, o.GetName())
	change := choose(r, slices.Concat(anywhere, k.edits, k.edits)...)
	told := func(format string, args ...any) string { return fmt.Sprintf(format, args...) + " of " + name }
	switch r.IntN(16) {
	case 0, 1, 2:
		change.edit(o)
		return request{told("create with %s", change.text), create(o)}
	case 3:
		if r.IntN(2) == 0 {
			return request{told("create of what was read before"), func(s *side) (any, error) { return create(s.read(o))(s) }}
		}
		change.edit(o)
		o.SetName("")
		o.SetGenerateName("made-")
		return request{told("dry run of a create with %s", change.text), func(s *side) (any, error) {
			o := o.DeepCopyObject().(client.Object)
			err := s.Create(s.ctx, o, client.DryRunAll)
			o.SetName("made")
			return o, err
		}}
	case 4, 5:
		return request{told("update with %s", change.text), update(change, func(s *side) (any, error) { return get(o)(s) })}
	case 6:
		return request{told("update of what was read before, with %s", change.text), update(change, func(s *side) (any, error) { return s.read(o), nil })}
	case 7:
		return request{told("replace by one with %s", change.text), update(change, func(*side) (any, error) { return o.DeepCopyObject().(client.Object), nil })}
	case 8, 9:
		text, kind := choose(r, slices.Concat(patchedAnywhere, k.patches, k.patches)...), types.MergePatchType
		if r.IntN(3) == 0 {
			kind = types.StrategicMergePatchType
		}
		return request{told("%s %s", kind, text), patch(o, kind, text)}
	case 10:
		text := choose(r, `[{"op": "add", "path": "/metadata/labels", "value": {"a": "7"}}]`, `[{"op": "remove", "path": "/metadata/labels/a"}]`, `[{"op": "test", "path": "/metadata/name", "value": "bar"}]`)
		return request{told("%s %s", types.JSONPatchType, text), patch(o, types.JSONPatchType, text)}
	case 11:
		text := choose(r, k.status...)
		return request{told("patch of the status %s", text), patchStatus(o, text)}
	case 12:
		return k.randomApply(r, o, told)
	case 13, 14:
		return k.randomDelete(r, o, told)
	}
	return k.randomList(r, told)
}

func update(change edited, from do) do {
	return func(s *side) (any, error) {
		answer, err := from(s)
		if err != nil {
			return answer, err
		}
		o := answer.(client.Object)
		change.edit(o)
		return o, s.Update(s.ctx, o)
	}
}

// read is what was read or written last of an object: another client can have changed it since.
func (s *side) read(o client.Object) client.Object {
	if last := s.last[fmt.Sprintf("%T %s", o, o.GetName())]; last != nil {
		return last.DeepCopyObject().(client.Object)
	}
	return o.DeepCopyObject().(client.Object)
}

func (k *subject) randomApply(r *rand.Rand, o client.Object, told func(string, ...any) string) request {
	gvk, _, err := scheme.ObjectKinds(o)
	if err != nil {
		panic(err) // the types are compiled in
	}
	text := fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {"name": %q, "namespace": "shop"}, %s}`, gvk[0].GroupVersion(), gvk[0].Kind, o.GetName(), choose(r, k.applied...))
	options := []client.PatchOption{client.FieldOwner(choose(r, "a", "b"))}
	if r.IntN(2) == 0 {
		options = append(options, client.ForceOwnership)
	}
	return request{told("apply by %v %s", options, text), func(s *side) (any, error) {
		o := o.DeepCopyObject().(client.Object)
		return o, s.Patch(s.ctx, o, client.RawPatch(types.ApplyPatchType, []byte(text)), options...)
	}}
}

func (k *subject) randomDelete(r *rand.Rand, o client.Object, told func(string, ...any) string) request {
	policy := client.PropagationPolicy(choose(r, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan))
	switch r.IntN(4) {
	case 0:
		return request{told("delete with another UID"), remove(o, client.Preconditions{UID: new(types.UID("other"))})}
	case 1:
		return request{told("delete of what was read before"), func(s *side) (any, error) {
			return remove(o, client.Preconditions{ResourceVersion: new(s.read(o).GetResourceVersion())})(s)
		}}
	case 2:
		return request{told("delete, %s", policy), remove(o, policy)}
	}
	return request{told("delete"), remove(o)}
}

// randomList lists names, in pages of one object.
func (k *subject) randomList(r *rand.Rand, told func(string, ...any) string) request {
	labels := choose(r, nil, client.MatchingLabels{"a": "1"}, client.MatchingLabels{"a": "2", "b": "1"})
	return request{told("list with %v", labels), func(s *side) (any, error) {
		names := map[string]string{}
		for page, next := 0, ""; page == 0 || next != ""; page++ {
			list := k.list.DeepCopyObject().(client.ObjectList)
			if err := s.List(s.ctx, list, client.InNamespace("shop"), labels, client.Limit(1), client.Continue(next)); err != nil {
				return nil, err
			}
			for _, o := range items(list) {
				names[fmt.Sprint("page ", page)] = o.GetName()
			}
			if next = list.GetContinue(); list.GetRemainingItemCount() != nil {
				names[fmt.Sprint("after page ", page)] = fmt.Sprint(*list.GetRemainingItemCount())
			}
		}
		return names, nil
	}}
}

func items(list client.ObjectList) (all []client.Object) {
	_ = meta.EachListItem(list, func(o runtime.Object) error { // the function returns no error
		all = append(all, o.(client.Object))
		return nil
	})
	return all
}

// clear deletes all, and then makes and deletes a marker of each kind, which is the last that a watch is told.
func (s *side) clear(t *testing.T) {
	for _, k := range subjects {
		list := k.list.DeepCopyObject().(client.ObjectList)
		if err := s.List(s.ctx, list, client.InNamespace("shop")); err != nil {
			t.Fatal(err)
		}
		for _, o := range items(list) {
			if err := client.IgnoreNotFound(s.Delete(s.ctx, o)); err != nil {
				t.Fatal(err)
			}
			if err := client.IgnoreNotFound(s.Patch(s.ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`)))); err != nil {
				t.Fatal(err)
			}
		}
		marker := k.object("marker")
		marker.SetLabels(map[string]string{"a": "1"})
		if err := s.Create(s.ctx, marker); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(s.ctx, marker); err != nil {
			t.Fatal(err)
		}
	}
}

// watch begins to watch all, and what has the label a=1. The function returns what both were told until the marker was deleted.
func (s *side) watch(t *testing.T) (told func() string) {
	var watches []watch.Interface
	for _, k := range subjects {
		list := k.list.DeepCopyObject().(client.ObjectList)
		if err := s.List(s.ctx, list, client.InNamespace("shop")); err != nil {
			t.Fatal(err)
		}
		for _, labels := range []client.MatchingLabels{nil, {"a": "1"}} {
			w, err := s.Watch(s.ctx, list, client.InNamespace("shop"), labels, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
			if err != nil {
				t.Fatal(err)
			}
			watches = append(watches, w)
		}
	}
	return func() string {
		var text strings.Builder
		for _, w := range watches {
			for event := range w.ResultChan() {
				o, isObject := event.Object.(client.Object)
				if !isObject {
					fmt.Fprintf(&text, "%s %v\n", event.Type, event.Object)
					break
				}
				fmt.Fprintf(&text, "%s %s\n", event.Type, comparable(o))
				if o.GetName() == "marker" && event.Type == watch.Deleted {
					break
				}
			}
			w.Stop()
		}
		return text.String()
	}
}
