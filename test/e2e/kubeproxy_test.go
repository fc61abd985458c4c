package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	members "github.com/clusterset-dns/multicluster/test/clusterset"
	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

// kube-proxy ignores an update of an EndpointSlice that takes the label kubernetes.io/service-name away or changes it, and the deletion
// that follows. These tests look at what kube-proxy has programmed, not at what the API server holds.

// proxied is one cluster with kube-proxy, and with a controller that the test starts and ends.
type proxied struct {
	*testing.T
	cluster    *controlplane.Cluster
	admin      client.Client
	controller *controlplane.Beside
}

func newProxied(t *testing.T) *proxied {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	n := &proxied{T: t, cluster: controlplane.New(t, controlplane.Options{})}
	err := errors.Join(n.cluster.InstallCRDs(t.Context(), controlplane.BothVersions), n.cluster.StartKubeProxy(t.Context()))
	if err == nil {
		n.admin, err = client.New(n.cluster.Config, client.Options{Scheme: members.Scheme})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.controller.Stop() })
	return n
}

// start starts the controller as the cluster c1 of a clusterset.
func (n *proxied) start() {
	n.Helper()
	var err error
	if n.controller, err = binaries.StartController(n.Context(), n.cluster, "--cluster-id=c1"); err != nil {
		n.Fatal(err)
	}
}

func (n *proxied) stop() {
	n.controller.Stop()
	n.controller = nil
}

func (n *proxied) apply(text string) {
	n.Helper()
	if err := n.cluster.Apply(n.Context(), "default", text); err != nil {
		n.Fatal(err)
	}
}

func (n *proxied) delete(text string) {
	n.Helper()
	if err := n.cluster.Delete(n.Context(), "default", text); err != nil {
		n.Fatal(err)
	}
}

func (n *proxied) slice(name string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// patch patches an object of the namespace default.
func (n *proxied) patch(object client.Object, text string) {
	n.Helper()
	if err := n.admin.Patch(n.Context(), object, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		n.Fatal(err)
	}
}

// ours are the names of the controller's slices of foo that belong to a Service.
func (n *proxied) ours(service string) ([]string, error) {
	var all discoveryv1.EndpointSliceList
	err := n.admin.List(n.Context(), &all, client.InNamespace("default"), client.MatchingLabels{
		mcsv1beta1.LabelServiceName: "foo", discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "multicluster-controller",
	})
	var names []string
	for _, slice := range all.Items {
		names = append(names, slice.Name)
	}
	return names, err
}

// endpointPattern is an endpoint in the chain of a Service, which is named after the Service's namespace, name and port:
// "dnat ip to numgen random mod 2 map { 0 : 10.99.0.11 . 8080, 1 : 10.99.0.12 . 8080 }", or "dnat to 10.99.0.11:8080" for a single one.
var endpointPattern = regexp.MustCompile(`(?:: |dnat to )(\d+\.\d+\.\d+\.\d+)(?: \. |:)\d+`)

// rules is what kube-proxy has programmed.
func (n *proxied) rules() (string, error) {
	text, err := exec.CommandContext(n.Context(), "nft", "list", "table", "ip", "kube-proxy").CombinedOutput()
	return string(text), err
}

// serves waits until kube-proxy sends traffic of a Service to exactly these addresses.
func (n *proxied) serves(service string, addresses ...string) {
	n.Helper()
	controlplane.Eventually(n.T, fmt.Sprintf("kube-proxy has %v for %s", addresses, service), func() error {
		text, err := n.rules()
		if err != nil {
			return err
		}
		found := map[string]bool{}
		for _, chain := range strings.Split(text, "\tchain ") {
			name, body, _ := strings.Cut(chain, " {")
			// A chain that nothing leads to any more is deleted later.
			if strings.Contains(name, "-default/"+service+"/") && strings.Contains(text, "goto "+name) {
				for _, match := range endpointPattern.FindAllStringSubmatch(body, -1) {
					found[match[1]] = true
				}
			}
		}
		for _, address := range addresses {
			if !found[address] {
				return fmt.Errorf("%s is missing of %v", address, found)
			}
		}
		if len(found) != len(addresses) {
			return fmt.Errorf("it has %v", found)
		}
		return nil
	})
}

const exportedFoo = `
apiVersion: v1
kind: Service
metadata: {name: foo}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: foo-1, labels: {kubernetes.io/service-name: foo, endpointslice.kubernetes.io/managed-by: example.org}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.99.0.11]}]
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: foo}
`

// forged is a slice that a tenant makes, with some labels.
func forged(labels string) string {
	return `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: forged, labels: {` + labels + `}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.99.0.66]}]
`
}

const (
	ofDerived = "kubernetes.io/service-name: derived-foo"
	ofImport  = "multicluster.kubernetes.io/service-name: foo"
)

func derivedFoo(spec string) string {
	return "{apiVersion: v1, kind: Service, metadata: {name: derived-foo}, spec: {" + spec + "}}"
}

// TestKubeProxyKeepsWhatLosesItsLabel holds the fact that the controller's rule rests on, and the cure. The two other labels that kube-proxy
// knows do no such harm.
func TestKubeProxyKeepsWhatLosesItsLabel(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		n := newProxied(t)
		n.apply(derivedFoo("ports: [{name: http, port: 80}]"))
		second := strings.NewReplacer("forged", "second", "10.99.0.66", "10.99.0.12").Replace(forged(ofDerived))

		t.Log("a slice with the label of headless Services is deleted for kube-proxy")
		n.apply(forged(ofDerived))
		n.serves("derived-foo", "10.99.0.66")
		n.patch(n.slice("forged"), `{"metadata":{"labels":{"service.kubernetes.io/headless":""}}}`)
		n.serves("derived-foo")
		n.delete(forged(ofDerived))

		t.Log("one with the label of another proxy serves on: that label is for Services")
		n.apply(forged(ofDerived))
		n.patch(n.slice("forged"), `{"metadata":{"labels":{"service.kubernetes.io/service-proxy-name":"another"}}}`)
		n.apply(second) // When kube-proxy has this one, it has seen all that was before.
		n.serves("derived-foo", "10.99.0.12", "10.99.0.66")
		n.delete(forged(ofDerived))
		n.serves("derived-foo", "10.99.0.12")
		n.delete(second)
		n.serves("derived-foo")

		t.Log("one that loses the label of its Service serves on, also when it is deleted; an empty one in its place is the cure")
		n.apply(forged(ofDerived))
		n.serves("derived-foo", "10.99.0.66")
		n.patch(n.slice("forged"), `{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`)
		n.delete(forged(ofDerived))
		n.apply(second)
		n.serves("derived-foo", "10.99.0.12", "10.99.0.66")
		empty := strings.Replace(forged(ofDerived), "endpoints: [{addresses: [10.99.0.66]}]", "endpoints: []", 1)
		n.apply(empty)
		n.serves("derived-foo", "10.99.0.12")
		n.delete(empty)
		n.serves("derived-foo", "10.99.0.12")
	})
}

// TestForgedEndpointsLeaveKubeProxy: however a tenant gives endpoints to the derived Service of an import of ours, and takes the label away
// again, they do not stay in kube-proxy.
func TestForgedEndpointsLeaveKubeProxy(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		n := newProxied(t)
		n.start()
		n.apply(exportedFoo)
		n.serves("derived-foo", "10.99.0.11")

		for what, labels := range map[string]string{
			"a slice of the import":     ofDerived + ", " + ofImport,
			"a slice of another kind":   ofDerived,
			"a slice with our mark":     ofDerived + ", " + ofImport + ", endpointslice.kubernetes.io/managed-by: multicluster-controller",
			"a slice of another import": ofDerived + ", multicluster.kubernetes.io/service-name: bar",
		} {
			t.Log(what + " is made")
			n.apply(forged(labels))
			controlplane.Eventually(t, "it is deleted", func() error { return n.gone("forged") })
			n.serves("derived-foo", "10.99.0.11")

			t.Log(what + " is made and loses its label, all labels, or itself at once")
			for _, patch := range []string{`{"kubernetes.io/service-name":null}`, `{"kubernetes.io/service-name":"other"}`,
				`{"kubernetes.io/service-name":null,"multicluster.kubernetes.io/service-name":null}`} {
				n.apply(forged(labels))
				slice := n.slice("forged")
				err := n.admin.Patch(t.Context(), slice, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":`+patch+`}}`)))
				if err == nil {
					err = n.admin.Delete(t.Context(), slice)
				}
				if client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
				controlplane.Eventually(t, "it is gone", func() error { return n.gone("forged") })
				n.serves("derived-foo", "10.99.0.11")
			}

			if !strings.Contains(labels, ofImport) {
				continue // Without the import's name, nothing shows that the slice has lost its label while no controller ran.
			}
			t.Log(what + " is made and loses its label while no controller runs")
			n.stop()
			n.apply(forged(labels))
			n.serves("derived-foo", "10.99.0.11", "10.99.0.66")
			n.patch(n.slice("forged"), `{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`)
			n.start()
			n.serves("derived-foo", "10.99.0.11")
			if err := client.IgnoreNotFound(n.admin.Delete(t.Context(), n.slice("forged"))); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestForgedNameOfAnotherFamily: a tenant gives the name of what has leaked to a slice of IPv6, so that no empty slice of IPv4 can have it. The cure
// waits until the name is free.
func TestForgedNameOfAnotherFamily(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		n := newProxied(t)
		n.start()
		n.apply(exportedFoo)
		n.serves("derived-foo", "10.99.0.11")
		n.stop()
		labels := ofDerived + ", " + ofImport
		n.apply(forged(labels))
		n.serves("derived-foo", "10.99.0.11", "10.99.0.66")
		n.patch(n.slice("forged"), `{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`)
		n.start()
		n.serves("derived-foo", "10.99.0.11")

		// Now while the controller runs. Whichever of the two is faster, nothing stays.
		squatter := strings.NewReplacer("addressType: IPv4", "addressType: IPv6", "10.99.0.66", "fd00:99::66").Replace(forged(ofImport))
		for range 5 {
			if err := client.IgnoreNotFound(n.admin.Delete(t.Context(), n.slice("forged"))); err != nil {
				t.Fatal(err)
			}
			n.apply(forged(labels))
			err := n.admin.Patch(t.Context(), n.slice("forged"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`)))
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			controlplane.Eventually(t, "the name is of IPv6", func() error {
				if err := client.IgnoreNotFound(n.admin.Delete(t.Context(), n.slice("forged"))); err != nil {
					return err
				}
				return n.cluster.Apply(t.Context(), "default", squatter) // The empty slice of the cure may have the name.
			})
			controlplane.Eventually(t, "the controller has seen it", func() error { return n.noted("forged") })
			n.delete(squatter)
			n.serves("derived-foo", "10.99.0.11")
		}
	})
}

// noted is nil where the import's condition names a slice of others.
func (n *proxied) noted(name string) error {
	imp := new(mcsv1beta1.ServiceImport)
	err := n.admin.Get(n.Context(), client.ObjectKey{Namespace: "default", Name: "foo"}, imp)
	if err == nil && !slices.ContainsFunc(imp.Status.Conditions, func(c metav1.Condition) bool { return strings.Contains(c.Message, name) }) {
		err = fmt.Errorf("conditions %v", imp.Status.Conditions)
	}
	return err
}

// othersFoo is an import that others made, with a slice of theirs.
const othersFoo = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: foo}
spec: {type: ClusterSetIP, ports: [{name: http, port: 80}]}
`

// TestImportsOfOthersLeaveNothingInKubeProxy: slices of others are copied for kube-proxy. Whatever label comes and goes on theirs or on the copy, only what
// is there serves.
func TestImportsOfOthersLeaveNothingInKubeProxy(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		n := newProxied(t)
		n.start()
		n.apply(othersFoo)
		n.apply(forged(ofImport))
		n.serves("derived-foo", "10.99.0.66")

		t.Log("the copy loses its label")
		names, err := n.ours("derived-foo")
		if err != nil || len(names) != 1 {
			t.Fatalf("copies %v: %v", names, err)
		}
		n.patch(n.slice(names[0]), `{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`)
		n.serves("derived-foo", "10.99.0.66")
		n.delete(forged(ofImport))
		n.serves("derived-foo")

		t.Log("theirs has the label for a while")
		n.apply(forged(ofImport))
		n.serves("derived-foo", "10.99.0.66")
		n.patch(n.slice("forged"), `{"metadata":{"labels":{"kubernetes.io/service-name":"derived-foo"}}}`)
		controlplane.Eventually(t, "the copy is gone", func() error {
			names, err := n.ours("derived-foo")
			if len(names) > 0 {
				err = errors.Join(err, fmt.Errorf("copies %v", names))
			}
			return err
		})
		n.patch(n.slice("forged"), `{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`)
		n.serves("derived-foo", "10.99.0.66")
		n.delete(forged(ofImport))
		n.serves("derived-foo")
	})
}

func (n *proxied) gone(name string) error {
	slice := n.slice(name)
	err := n.admin.Get(n.Context(), client.ObjectKeyFromObject(slice), slice)
	if err == nil {
		return fmt.Errorf("%s is there: %v", name, slice.Labels)
	}
	return client.IgnoreNotFound(err)
}

// TestEditedLabelsOfOurSlices: a tenant removes the label of a controller's slice, or sets it to
// another Service.
func TestEditedLabelsOfOurSlices(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		n := newProxied(t)
		n.start()
		n.apply(exportedFoo)
		n.apply("{apiVersion: v1, kind: Service, metadata: {name: theirs}, spec: {ports: [{name: http, port: 80}]}}")
		n.serves("derived-foo", "10.99.0.11")
		for _, label := range []string{"null", `"theirs"`} {
			names, err := n.ours("derived-foo")
			if err != nil || len(names) != 1 {
				t.Fatalf("slices %v: %v", names, err)
			}
			n.patch(n.slice(names[0]), `{"metadata":{"labels":{"kubernetes.io/service-name":`+label+`}}}`)
			controlplane.Eventually(t, "the slice has its label again", func() error {
				names, err := n.ours("derived-foo")
				if len(names) != 1 {
					err = errors.Join(err, fmt.Errorf("slices %v", names))
				}
				return err
			})
			n.serves("derived-foo", "10.99.0.11")
			n.serves("theirs")
		}
		// What the slice had is gone from kube-proxy when the source is.
		n.delete(exportedFoo)
		n.serves("derived-foo")
	})
}

// TestWaysOfDisconnecting: each way in which the slices of an import cease to belong to a Service leaves nothing in kube-proxy, also when
// a Service of that name is made anew.
func TestWaysOfDisconnecting(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		n := newProxied(t)
		n.start()
		n.apply(exportedFoo)
		n.serves("derived-foo", "10.99.0.11")

		// The addresses of the test are in the lower part of the range, which the API server does
		// not assign by itself.
		t.Log("another name in the annotation")
		imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foo"}}
		n.patch(imp, `{"metadata":{"annotations":{"multicluster.kubernetes.io/derived-service":"other"}}}`)
		n.serves("other", "10.99.0.11")
		n.apply(derivedFoo("ports: [{name: http, port: 80}], clusterIP: 10.0.0.12"))
		n.programmed("10.0.0.12")
		n.serves("derived-foo")
		n.patch(imp, `{"metadata":{"annotations":{"multicluster.kubernetes.io/derived-service":"third"}}}`)
		n.serves("third", "10.99.0.11")
		n.delete(derivedFoo("ports: [{name: http, port: 80}]"))
		n.patch(imp, `{"metadata":{"annotations":{"multicluster.kubernetes.io/derived-service":"derived-foo"}}}`)
		n.serves("derived-foo", "10.99.0.11")
		n.serves("third")

		t.Log("a foreign Service instead of the derived one, and deleted again")
		n.stop() // so that the other is there before ours is made anew
		if err := n.admin.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "derived-foo"}}); err != nil {
			t.Fatal(err)
		}
		n.apply(derivedFoo("ports: [{name: http, port: 80}], clusterIP: 10.0.0.13"))
		n.start()
		n.programmed("10.0.0.13")
		n.serves("derived-foo")
		n.delete(derivedFoo("ports: [{name: http, port: 80}]"))
		n.serves("derived-foo", "10.99.0.11")

		t.Log("Headless, and back")
		headless := strings.Replace(exportedFoo, "spec: {", "spec: {clusterIP: None, ", 1)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foo"}}
		for _, text := range []string{headless, exportedFoo} {
			if err := n.admin.Delete(t.Context(), service.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			n.apply(text)
			if text == headless {
				controlplane.Eventually(t, "the derived Service is gone", func() error {
					err := n.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "derived-foo"}, new(corev1.Service))
					if err == nil {
						return errors.New("it is there")
					}
					return client.IgnoreNotFound(err)
				})
				n.apply(derivedFoo("ports: [{name: http, port: 80}], clusterIP: 10.0.0.14"))
				n.programmed("10.0.0.14")
				n.serves("derived-foo")
				n.delete(derivedFoo("ports: [{name: http, port: 80}]"))
			}
		}
		n.serves("derived-foo", "10.99.0.11")
	})
}

// programmed waits until kube-proxy knows of a Service with that ClusterIP, with endpoints or without.
func (n *proxied) programmed(ip string) {
	n.Helper()
	controlplane.Eventually(n.T, "kube-proxy knows "+ip, func() error {
		text, err := n.rules()
		if err == nil && !regexp.MustCompile(`\b`+regexp.QuoteMeta(ip)+`\b`).MatchString(text) {
			err = errors.New("it does not")
		}
		return err
	})
}
