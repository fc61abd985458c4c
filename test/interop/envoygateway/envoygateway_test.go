// Package envoygateway runs Envoy Gateway's control plane in a cluster of a clusterset, with HTTPRoutes to imported Services. What it
// makes of them is seen in the routes' status, and in what an Envoy would get by xDS. There is no Envoy, and no pod.
package envoygateway

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world"
)

const namespace = "shop"

// gateways are those of gatewayObjects.
var gateways = []string{"web", "by-ip"}

const gatewayObjects = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: eg}
spec: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: shop}
spec:
  gatewayClassName: eg
  listeners: [{name: http, protocol: HTTP, port: 80}]
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: {name: by-ip, namespace: shop}
spec: {routingType: Service}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: by-ip, namespace: shop}
spec:
  gatewayClassName: eg
  infrastructure: {parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: by-ip}}
  listeners: [{name: http, protocol: HTTP, port: 80}]
`

// route is an HTTPRoute of a Gateway. Its name is also its path.
func route(gateway, name, group, kind, backend string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s, namespace: shop}
spec:
  parentRefs: [{name: %[5]s}]
  rules:
    - matches: [{path: {type: PathPrefix, value: /%[1]s}}]
      backendRefs: [{group: %[2]q, kind: %[3]s, name: %[4]s, port: 80}]
---`, name, group, kind, backend, gateway)
}

// byService makes a route use the ClusterIP instead of endpoints.
func byService(name string) string {
	return fmt.Sprintf(`
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: %[1]s, namespace: shop}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: %[1]s}]
  routingType: Service
---`, name)
}

const mcsGroup = mcsv1beta1.GroupName

// routes are the ways from a Gateway to an imported Service.
var routes = strings.Join([]string{
	route("web", "import", mcsGroup, "ServiceImport", "foo"),
	route("web", "import-by-service", mcsGroup, "ServiceImport", "foo"), byService("import-by-service"),
	route("by-ip", "import-by-proxy", mcsGroup, "ServiceImport", "foo"),
	route("web", "headless", mcsGroup, "ServiceImport", "db"),
	route("web", "derived-by-service", "", "Service", "derived-foo"), byService("derived-by-service"),
	route("web", "native", "", "Service", "foo"),
}, "")

func TestRoutes(t *testing.T) {
	if os.Getenv("INTEROP") == "" {
		t.Skip("builds and runs Envoy Gateway: run it with make e2e-envoygateway")
	}
	if _, err := module.Build(t.Context(), os.Stderr); err != nil { // where there is a network
		t.Fatal(err)
	}
	kube.InNetNS(t, func(t *testing.T) {
		w := world.Joined(t, "c1", "c2")
		ns := w.Called(namespace, "c1", "c2")
		w.Run("c1")
		w.Run("c2")
		ns.Export("c1", world.Service("foo"), "10.9.1.1", "10.9.1.2")
		ns.Export("c1", world.Service("db", world.Headless), "10.9.2.1")
		ns.Until("c2 has foo", func() error { return ns.Imported("c2", "foo", []string{"c1"}, "10.9.1.1", "10.9.1.2") })
		ns.Until("c2 has db", func() error { return ns.Imported("c2", "db", []string{"c1"}, "10.9.2.1") })
		foo, err := ns.Import("c2", "foo")
		ns.Must(err)
		c2 := w.Cluster("c2")
		g := startGateway(t, c2)
		apply(t, c2, gatewayObjects)
		apply(t, c2, routes)
		t.Run("an import's slices with both labels are not found", func(t *testing.T) { g.notFound(t, "import") })
		t.Run("by the import's IP", func(t *testing.T) { g.leadsTo(t, "import-by-service", foo.Spec.IPs[0]+":80") })
		t.Run("by the import's IP, for a whole Gateway", func(t *testing.T) { g.leadsTo(t, "import-by-proxy", foo.Spec.IPs[0]+":80") })
		t.Run("headless, to endpoints", func(t *testing.T) { g.leadsTo(t, "headless", "10.9.2.1:8080") })
		t.Run("by the derived Service's IP", func(t *testing.T) { g.leadsTo(t, "derived-by-service", foo.Spec.IPs[0]+":80") })
		t.Run("by the native name, to endpoints", func(t *testing.T) { g.native(t, ns.For(t)) })
		t.Run("headless endpoints change", func(t *testing.T) {
			change(ns.For(t), "db", "10.9.2.1", "10.9.2.2")
			g.leadsTo(t, "headless", "10.9.2.1:8080", "10.9.2.2:8080")
		})
	})
}

func apply(t *testing.T, c *world.Cluster, text string) {
	t.Helper()
	// Again, as a CRD may not be served yet.
	kube.EventuallyEvery(t, 100*time.Millisecond, "apply to "+c.ID, func() error {
		at := namespace
		if strings.Contains(text, "kind: GatewayClass") {
			at = ""
		}
		return c.Apply(t.Context(), at, text)
	})
}

// change gives the endpoints of a Service of c1 other addresses.
func change(ns *world.Namespace, service string, addresses ...string) {
	ns.Helper()
	slice := world.Endpoints(world.Service(service), "", addresses...)
	world.Edit(ns, "c1", new(discoveryv1.EndpointSlice), slice.Name, func(s *discoveryv1.EndpointSlice) { s.Endpoints = slice.Endpoints })
}

// native asks for the native name: a Service foo, whose slices have the label of that Service only, and which follows changes.
func (g *gateway) native(t *testing.T, ns *world.Namespace) {
	world.Edit(ns, "c2", new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) {
		imp.Annotations["clusterset-dns.io/native-name"] = "true"
	})
	ns.Until("Service foo", func() error { return g.at.Admin.Get(t.Context(), ns.Key("foo"), new(corev1.Service)) })
	g.leadsTo(t, "native", "10.9.1.1:8080", "10.9.1.2:8080")
	g.hasLabels(t, "foo", "")
	g.hasLabels(t, "derived-foo", "foo")
	change(ns, "foo", "10.9.1.2", "10.9.1.3")
	g.leadsTo(t, "native", "10.9.1.2:8080", "10.9.1.3:8080")
}

// hasLabels wants that the slices of a Service have a certain name of an import in their labels, or none, and refer to no Pod: gateways
// and meshes differ in what they make of it.
func (g *gateway) hasLabels(t *testing.T, service, imp string) {
	t.Helper()
	var all discoveryv1.EndpointSliceList
	if err := g.at.Admin.List(t.Context(), &all, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
		t.Fatal(err)
	}
	for _, slice := range all.Items {
		if got, has := slice.Labels[mcsv1beta1.LabelServiceName]; got != imp || has != (imp != "") {
			t.Errorf("slice %s of %s has labels %v", slice.Name, service, slice.Labels)
		}
		for _, e := range slice.Endpoints {
			if e.TargetRef != nil {
				t.Errorf("slice %s of %s refers to %v", slice.Name, service, e.TargetRef)
			}
		}
	}
	if len(all.Items) == 0 {
		t.Errorf("Service %s has no slices", service)
	}
}

// leadsTo wants a route that is accepted, with resolved backends, and exactly these endpoints.
func (g *gateway) leadsTo(t *testing.T, name string, want ...string) {
	t.Helper()
	kube.EventuallyEvery(t, 200*time.Millisecond, "route "+name, func() error {
		if err := errors.Join(g.condition(t, name, "Accepted", "True", "Accepted"), g.condition(t, name, "ResolvedRefs", "True", "ResolvedRefs")); err != nil {
			return err
		}
		got, err := g.endpoints(name)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("route %s leads to %v; want %v", name, got, want)
		}
		return err
	})
}

// notFound wants a route whose backend has no endpoints.
func (g *gateway) notFound(t *testing.T, name string) {
	t.Helper()
	kube.EventuallyEvery(t, 200*time.Millisecond, "route "+name, func() error {
		return g.condition(t, name, "BackendsAvailable", "False", "EndpointsNotFound")
	})
	if got, err := g.endpoints(name); err == nil && len(got) > 0 {
		t.Errorf("it leads to %v: Envoy Gateway has changed, and so must docs/interop/gateway-api.md", got)
	}
}

// condition wants a condition of a route, as its only parent has it.
func (g *gateway) condition(t *testing.T, name, kind, status, reason string) error {
	live := new(unstructured.Unstructured)
	live.SetGroupVersionKind(schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"})
	if err := g.at.Admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, live); err != nil {
		return err
	}
	parents, _, err := unstructured.NestedSlice(live.Object, "status", "parents")
	if err != nil || len(parents) != 1 {
		return errors.Join(err, fmt.Errorf("route %s has parents %v", name, parents))
	}
	conditions, _, _ := unstructured.NestedSlice(parents[0].(map[string]any), "conditions")
	for _, each := range conditions {
		c := each.(map[string]any)
		if c["type"] == kind && c["status"] == status && c["reason"] == reason {
			return nil
		}
	}
	return fmt.Errorf("route %s has %v; want %s %s %s", name, conditions, kind, status, reason)
}
