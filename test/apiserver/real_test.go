package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube"
)

var shared = kube.Shared{Prepare: func(ctx context.Context, c *kube.Cluster) error { return c.InstallCRDs(ctx, kube.BothVersions) }}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(kube.Main(m, &shared, &controlled))
}

// side is one of the two API servers. Steps of a story keep what they need between them.
type side struct {
	client.WithWatch
	ctx     context.Context
	config  *rest.Config
	restart func(context.Context) error
	last    map[string]client.Object // by kind and name: what was read or written last
}

// do is what a step does. Its result is what the API server answers.
type do func(s *side) (any, error)

// object has a name in the namespace of the test.
func object[T client.Object](o T, name string, edits ...func(T)) T {
	o.SetNamespace("shop")
	o.SetName(name)
	for _, edit := range edits {
		edit(o)
	}
	return o
}

func create(o client.Object) do {
	return func(s *side) (any, error) {
		o := o.DeepCopyObject().(client.Object)
		return o, s.Create(s.ctx, o)
	}
}

// edit writes an object that was read, as it is after a change.
func edit[T client.Object](of T, change func(T)) do {
	return func(s *side) (any, error) {
		if err := s.Get(s.ctx, client.ObjectKeyFromObject(of), of); err != nil {
			return of, err
		}
		change(of)
		return of, s.Update(s.ctx, of)
	}
}

func patch(of client.Object, kind types.PatchType, text string) do {
	return func(s *side) (any, error) {
		o := of.DeepCopyObject().(client.Object)
		return o, s.Patch(s.ctx, o, client.RawPatch(kind, []byte(text)))
	}
}

func patchStatus(of client.Object, text string) do {
	return func(s *side) (any, error) {
		o := of.DeepCopyObject().(client.Object)
		return o, s.Status().Patch(s.ctx, o, client.RawPatch(types.MergePatchType, []byte(text)))
	}
}

func remove(of client.Object, options ...client.DeleteOption) do {
	return func(s *side) (any, error) {
		return nil, s.Delete(s.ctx, of.DeepCopyObject().(client.Object), options...)
	}
}

func get(of client.Object) do {
	return func(s *side) (any, error) {
		o := of.DeepCopyObject().(client.Object)
		return o, s.Get(s.ctx, client.ObjectKeyFromObject(of), o)
	}
}

// list gives the names in a list.
func list(of client.ObjectList, options ...client.ListOption) do {
	return func(s *side) (any, error) {
		l := of.DeepCopyObject().(client.ObjectList)
		var names []string
		err := s.List(s.ctx, l, options...)
		_ = meta.EachListItem(l, func(o runtime.Object) error {
			names = append(names, o.(client.Object).GetName())
			return nil
		})
		return names, err
	}
}

// events gives those of slices up to a bookmark, or the error that ends them.
func events(options metav1.ListOptions, selected client.MatchingLabels) do {
	return func(s *side) (any, error) {
		raw := options
		w, err := s.Watch(s.ctx, new(discoveryv1.EndpointSliceList), &client.ListOptions{Raw: &raw}, client.InNamespace("shop"), selected)
		if err != nil {
			return nil, err
		}
		defer w.Stop()
		var seen []string
		for event := range w.ResultChan() {
			slice, ok := event.Object.(*discoveryv1.EndpointSlice)
			if !ok {
				return nil, apierrors.FromObject(event.Object)
			}
			seen = append(seen, fmt.Sprint(event.Type, slice.Name, slice.Annotations, slice.Endpoints))
			if event.Type == watch.Bookmark {
				return seen, nil
			}
		}
		return seen, s.ctx.Err()
	}
}

// discovered gives which resources a version has, of those that a Server has.
func discovered(version string) do {
	return func(s *side) (any, error) {
		client, err := discovery.NewDiscoveryClientForConfig(s.config)
		if err != nil {
			return nil, err
		}
		list, err := client.ServerResourcesForGroupVersion(version)
		if err != nil {
			return nil, err
		}
		var found []string
		for _, k := range kinds {
			for _, r := range list.APIResources {
				if r.Name == k.resource {
					found = append(found, fmt.Sprint(r.Name, r.SingularName, r.Kind, r.Namespaced))
				}
			}
		}
		return found, nil
	}
}

func preferred(s *side) (any, error) {
	client, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		return nil, err
	}
	groups, err := client.ServerGroups()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, g := range groups.Groups {
		if slices.ContainsFunc(kinds, func(k *kind) bool { return k.Group == g.Name }) {
			found = append(found, g.PreferredVersion.GroupVersion)
		}
	}
	return slices.Sorted(slices.Values(found)), nil
}

func apply(of *corev1ac.ServiceApplyConfiguration, options ...client.ApplyOption) do {
	return func(s *side) (any, error) {
		own := new(corev1ac.ServiceApplyConfiguration) // the client writes the answer into it
		text, err := json.Marshal(of)
		if err == nil {
			err = json.Unmarshal(text, own)
		}
		if err == nil {
			err = s.Apply(s.ctx, own, options...)
		}
		if err != nil {
			return nil, err
		}
		o := object(new(corev1.Service), *of.Name)
		return o, s.Get(s.ctx, client.ObjectKeyFromObject(o), o)
	}
}

func ports(all ...corev1.ServicePort) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.Ports = all }
}

// TestLikeAKubeAPIServer plays stories, each in one cluster of a kube-apiserver and in one of a Server, and compares each answer. One story starts the
// kube-apiserver again: a watch from a version that is too old is refused only by one that has forgotten its changes.
func TestLikeAKubeAPIServer(t *testing.T) {
	http := corev1.ServicePort{Name: "http", Port: 80}
	foo := object(new(corev1.Service), "foo", ports(http))
	slice := object(new(discoveryv1.EndpointSlice), "foo-1", func(s *discoveryv1.EndpointSlice) {
		s.AddressType, s.Endpoints = discoveryv1.AddressTypeIPv4, []discoveryv1.Endpoint{{Addresses: []string{"10.9.1.1"}}}
		s.Ports = []discoveryv1.EndpointPort{{Port: new(int32(8080))}}
		s.Labels = map[string]string{discoveryv1.LabelServiceName: "foo"}
	})
	imp := object(new(mcsv1beta1.ServiceImport), "foo", func(i *mcsv1beta1.ServiceImport) {
		i.Spec = mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}}
	})
	lease := object(new(coordinationv1.Lease), "foo", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("a") })
	stale := func(kind client.Object) do {
		return func(s *side) (any, error) {
			old := kind.DeepCopyObject().(client.Object)
			if err := s.Get(s.ctx, client.ObjectKeyFromObject(kind), old); err != nil {
				return nil, err
			}
			newer := old.DeepCopyObject().(client.Object)
			newer.SetAnnotations(map[string]string{"newer": "yes"})
			old.SetAnnotations(map[string]string{"older": "yes"})
			return nil, errors.Join(s.Update(s.ctx, newer), s.Update(s.ctx, old))
		}
	}
	owner := client.FieldOwner("multicluster-controller")
	heads, unstructuredImports := new(metav1.PartialObjectMetadataList), new(unstructured.UnstructuredList) // the first in protobuf, the other in JSON
	heads.SetGroupVersionKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSliceList"))
	unstructuredImports.SetGroupVersionKind(mcsv1beta1.SchemeGroupVersion.WithKind("ServiceImportList"))
	for name, steps := range map[string][]do{
		"a Service": {
			create(foo), create(foo), get(foo),
			edit(object(new(corev1.Service), "foo"), func(svc *corev1.Service) { svc.Labels = map[string]string{"a": "1"} }),
			edit(object(new(corev1.Service), "foo"), func(*corev1.Service) {}),
			edit(object(new(corev1.Service), "foo"), func(svc *corev1.Service) {
				svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP})
			}),
			edit(object(new(corev1.Service), "foo"), func(svc *corev1.Service) {
				svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "10.0.0.200", []string{"10.0.0.200"}
			}),
			patch(foo, types.MergePatchType, `{"spec": {"sessionAffinity": "ClientIP"}}`),
			patch(foo, types.StrategicMergePatchType, `{"spec": {"ports": [{"port": 443, "name": "https"}]}}`),
			patchStatus(foo, `{"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}, "spec": {"sessionAffinity": "None"}}`),
			stale(foo), remove(foo), remove(foo), get(foo),
		},
		"a Service with addresses of a load balancer": {
			create(foo),
			patch(foo, types.MergePatchType, `{"spec": {"type": "LoadBalancer", "loadBalancerClass": "example.org/vip", "allocateLoadBalancerNodePorts": false}}`),
			patchStatus(foo, `{"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}}}`), get(foo),
			patch(foo, types.MergePatchType, `{"spec": {"type": "ClusterIP", "loadBalancerClass": null, "allocateLoadBalancerNodePorts": null, "externalTrafficPolicy": null}}`), get(foo),
		},
		"Services of other kinds": {
			create(object(new(corev1.Service), "headless", ports(http), func(svc *corev1.Service) { svc.Spec.ClusterIP = "None" })),
			create(object(new(corev1.Service), "external", func(svc *corev1.Service) {
				svc.Spec.Type, svc.Spec.ExternalName = corev1.ServiceTypeExternalName, "foo.example.com"
			})),
			create(object(new(corev1.Service), "selected", ports(http), func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"app": "foo"} })),
			create(object(new(corev1.Service), "dual", ports(http), func(svc *corev1.Service) { svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack) })),
			create(object(new(corev1.Service), "both", ports(http), func(svc *corev1.Service) { svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) })),
			create(object(new(corev1.Service), "six", ports(http), func(svc *corev1.Service) { svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} })),
			create(object(new(corev1.Service), "chosen", ports(http), func(svc *corev1.Service) { svc.Spec.ClusterIP = "10.0.0.77" })),
			create(object(new(corev1.Service), "taken", ports(http), func(svc *corev1.Service) { svc.Spec.ClusterIP = "10.0.0.77" })),
			create(object(new(corev1.Service), "outside", ports(http), func(svc *corev1.Service) { svc.Spec.ClusterIP = "10.5.0.77" })),
		},
		"a Service that is applied": {
			apply(corev1ac.Service("foo", "shop").WithSpec(corev1ac.ServiceSpec().WithPorts(corev1ac.ServicePort().WithName("http").WithPort(80).WithProtocol(corev1.ProtocolTCP))), owner),
			apply(corev1ac.Service("foo", "shop").WithSpec(corev1ac.ServiceSpec().WithPorts(corev1ac.ServicePort().WithName("http").WithPort(80).WithProtocol(corev1.ProtocolTCP))), owner),
			patch(foo, types.MergePatchType, `{"metadata": {"labels": {"theirs": "yes"}}}`),
			apply(corev1ac.Service("foo", "shop").WithSpec(corev1ac.ServiceSpec().WithPorts(corev1ac.ServicePort().WithName("web").WithPort(80).WithProtocol(corev1.ProtocolTCP))), client.FieldOwner("kubectl")),
			apply(corev1ac.Service("foo", "shop").WithSpec(corev1ac.ServiceSpec().WithPorts(corev1ac.ServicePort().WithName("web").WithPort(80).WithProtocol(corev1.ProtocolTCP))), client.FieldOwner("kubectl"), client.ForceOwnership),
			apply(corev1ac.Service("foo", "shop"), owner),
			apply(corev1ac.Service("foo", "shop").WithResourceVersion("1"), owner),
		},
		"a slice": {
			create(slice), edit(object(new(discoveryv1.EndpointSlice), "foo-1"), func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil }),
			edit(object(new(discoveryv1.EndpointSlice), "foo-1"), func(s *discoveryv1.EndpointSlice) { s.Annotations = map[string]string{"a": "1"} }),
			edit(object(new(discoveryv1.EndpointSlice), "foo-1"), func(s *discoveryv1.EndpointSlice) { s.Labels["a"] = "1" }),
			edit(object(new(discoveryv1.EndpointSlice), "foo-1"), func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 }),
			stale(slice), remove(slice, client.Preconditions{ResourceVersion: new("1")}), remove(slice, client.Preconditions{UID: new(types.UID("other"))}), remove(slice),
		},
		"an import": {
			create(imp), patchStatus(imp, `{"status": {"clusters": [{"cluster": "member1"}]}}`), patchStatus(imp, `{"status": {"clusters": [{"cluster": "member1"}]}}`),
			patch(imp, types.MergePatchType, `{"spec": {"ips": ["10.0.0.3"]}, "status": {"clusters": []}}`), patch(imp, types.MergePatchType, `{"metadata": {"labels": {"a": "1"}}}`),
			patch(imp, types.MergePatchType, `{"metadata": {"finalizers": ["example.com/kept"]}}`), remove(imp), get(imp), remove(imp), create(imp),
			patch(imp, types.MergePatchType, `{"metadata": {"finalizers": null}}`), get(imp), stale(imp),
			create(object(new(mcsv1beta1.ServiceImport), "", func(i *mcsv1beta1.ServiceImport) { i.Spec = imp.Spec })),
		},
		"a Lease and a Secret": {
			create(lease), edit(object(new(coordinationv1.Lease), "foo"), func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("b") }), remove(lease),
			create(object(new(corev1.Secret), "foo", func(s *corev1.Secret) { s.StringData = map[string]string{"a": "1"} })),
			patch(object(new(corev1.Secret), "foo"), types.MergePatchType, `{"data": {"a": "Mg=="}}`),
		},
		"many objects, and watches": {
			preferred, discovered("v1"), discovered("discovery.k8s.io/v1"), discovered(mcsv1beta1.GroupVersion.String()), discovered("discovery.k8s.io/v9"),
			create(slice), create(object(slice.DeepCopy(), "foo-2")), create(object(slice.DeepCopy(), "bar-1", func(s *discoveryv1.EndpointSlice) { s.Labels = nil })),
			create(object(imp.DeepCopy(), "bar")), list(new(mcsv1beta1.ServiceImportList), client.InNamespace("shop")), list(unstructuredImports),
			list(new(corev1.NamespaceList), client.MatchingFields{"metadata.name": "none"}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}),
			list(new(corev1.NamespaceList), client.MatchingFields{"metadata.name": "kube-system"}),
			list(new(corev1.NamespaceList), client.MatchingFields{"spec.other": "1"}),
			list(heads, client.InNamespace("shop"), client.Limit(1)), list(heads, client.InNamespace("shop")),
			events(metav1.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, slice.Labels),
			func(s *side) (any, error) { return nil, s.restart(s.ctx) },
			events(metav1.ListOptions{ResourceVersion: "2"}, nil),
		},
		"a namespace that is not there": {
			create(object(new(corev1.Service), "foo", ports(http), func(svc *corev1.Service) { svc.Namespace = "nowhere" })),
			get(object(new(corev1.Service), "foo", func(svc *corev1.Service) { svc.Namespace = "nowhere" })),
			patch(object(new(corev1.Service), "foo", func(svc *corev1.Service) { svc.Namespace = "nowhere" }), types.MergePatchType, `{}`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			real := shared.Cluster(t)
			server := New(Options{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}})
			sides := [2]*side{newSide(t, real.Config), newSide(t, &rest.Config{Host: "http://memory", Transport: RoundTripper{server}, QPS: -1})}
			sides[0].restart = func(ctx context.Context) error { real.StopAPIServer(); return real.StartAPIServer(ctx) }
			sides[1].restart = func(context.Context) error { server.Forget(); return nil }
			for i, step := range steps {
				var answers [2]string
				for n, s := range sides {
					answers[n] = s.answer(step)
				}
				if answers[0] != answers[1] {
					t.Errorf("step %d (-kube-apiserver +in memory):\n%s", i, cmp.Diff(answers[0], answers[1]))
				}
			}
			for _, kind := range []client.Object{new(corev1.Service), new(discoveryv1.EndpointSlice), new(mcsv1beta1.ServiceImport), new(corev1.Secret), new(coordinationv1.Lease)} {
				kind.SetNamespace("shop")
				if err := sides[0].DeleteAllOf(t.Context(), kind, client.InNamespace("shop")); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func newSide(t *testing.T, config *rest.Config) *side {
	config = rest.CopyConfig(config)
	config.UserAgent = "tests/v1"
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &side{WithWatch: c, config: config, ctx: t.Context(), last: map[string]client.Object{}}
	if err := c.Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return s
}

// answer is what an API server answers to a step: an error with its code, reason and causes, or the object. Of its version it says whether
// it is another one than before.
func (s *side) answer(step do) string {
	result, err := step(s)
	if err != nil {
		var known apierrors.APIStatus
		if !errors.As(err, &known) {
			return err.Error()
		}
		status := known.Status()
		return like(fmt.Sprintf("%d %s: %s %+v", status.Code, status.Reason, status.Message, causes(status)))
	}
	o, ok := result.(client.Object)
	if !ok {
		return like(fmt.Sprint(result))
	}
	key := fmt.Sprintf("%T %s", o, o.GetName())
	version := "a new version"
	if before := s.last[key]; before != nil && before.GetResourceVersion() == o.GetResourceVersion() {
		version = "the same version"
	}
	s.last[key] = o.DeepCopyObject().(client.Object)
	return version + "\n" + comparable(o)
}
