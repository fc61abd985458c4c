package kubeproxy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// kube-proxy ignores an update of an EndpointSlice that removes the label kubernetes.io/service-name or changes it, and the deletion
// that follows.

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
	w := newWorld(t)
	w.apply(derivedFoo("ports: [{name: http, port: 80}]"))
	second := strings.NewReplacer("forged", "second", "10.99.0.66", "10.99.0.12").Replace(forged(ofDerived))

	t.Log("a slice with the label of headless Services is deleted for kube-proxy")
	w.apply(forged(ofDerived))
	w.serves("derived-foo", "10.99.0.66")
	w.patch(w.slice("forged"), `{"metadata":{"labels":{"service.kubernetes.io/headless":""}}}`)
	w.serves("derived-foo")
	w.delete(forged(ofDerived))

	t.Log("one with the label of another proxy serves on: that label is for Services")
	w.apply(forged(ofDerived))
	w.patch(w.slice("forged"), `{"metadata":{"labels":{"service.kubernetes.io/service-proxy-name":"another"}}}`)
	w.apply(second) // When kube-proxy has this one, it has seen all that was before.
	w.serves("derived-foo", "10.99.0.12", "10.99.0.66")
	w.delete(forged(ofDerived))
	w.serves("derived-foo", "10.99.0.12")
	w.delete(second)
	w.serves("derived-foo")

	t.Log("one that loses the label of its Service serves on, also when it is deleted; an empty one in its place is the cure")
	w.apply(forged(ofDerived))
	w.serves("derived-foo", "10.99.0.66")
	w.patch(w.slice("forged"), `{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`)
	w.delete(forged(ofDerived))
	w.apply(second)
	w.serves("derived-foo", "10.99.0.12", "10.99.0.66")
	empty := strings.Replace(forged(ofDerived), "endpoints: [{addresses: [10.99.0.66]}]", "endpoints: []", 1)
	w.apply(empty)
	w.serves("derived-foo", "10.99.0.12")
	w.delete(empty)
	w.serves("derived-foo", "10.99.0.12")
}

// TestForgedEndpointsLeaveKubeProxy: however a tenant gives endpoints to the derived Service of an import of ours, and takes the label away
// again, they do not stay in kube-proxy.
func TestForgedEndpointsLeaveKubeProxy(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.apply(exportedFoo)
	w.serves("derived-foo", "10.99.0.11")

	for what, labels := range map[string]string{
		"a slice of the import":     ofDerived + ", " + ofImport,
		"a slice of another kind":   ofDerived,
		"a slice with our mark":     ofDerived + ", " + ofImport + ", endpointslice.kubernetes.io/managed-by: multicluster-controller",
		"a slice of another import": ofDerived + ", multicluster.kubernetes.io/service-name: bar",
	} {
		t.Log(what + " is made")
		w.apply(forged(labels))
		kube.Eventually(t, "it is deleted", func() error { return w.gone("forged") })
		w.serves("derived-foo", "10.99.0.11")

		t.Log(what + " is made and loses its label, all labels, or itself at once")
		for _, patch := range []string{`{"kubernetes.io/service-name":null}`, `{"kubernetes.io/service-name":"other"}`,
			`{"kubernetes.io/service-name":null,"multicluster.kubernetes.io/service-name":null}`} {
			w.apply(forged(labels))
			slice := w.slice("forged")
			err := w.admin.Patch(t.Context(), slice, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":`+patch+`}}`)))
			if err == nil {
				err = w.admin.Delete(t.Context(), slice)
			}
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			kube.Eventually(t, "it is gone", func() error { return w.gone("forged") })
			w.serves("derived-foo", "10.99.0.11")
		}

		if !strings.Contains(labels, ofImport) {
			continue // Without the import's name, nothing shows that the slice has lost its label while no controller ran.
		}
		t.Log(what + " is made and loses its label while no controller runs")
		w.stop()
		w.apply(forged(labels))
		w.serves("derived-foo", "10.99.0.11", "10.99.0.66")
		w.patch(w.slice("forged"), `{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`)
		w.start()
		w.serves("derived-foo", "10.99.0.11")
		if err := client.IgnoreNotFound(w.admin.Delete(t.Context(), w.slice("forged"))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForgedNameOfAnotherFamily: a tenant gives the name of what has leaked to a slice of IPv6, so that no empty slice of IPv4 can have it. The cure
// waits until the name is free.
func TestForgedNameOfAnotherFamily(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.apply(exportedFoo)
	w.serves("derived-foo", "10.99.0.11")
	w.stop()
	labels := ofDerived + ", " + ofImport
	w.apply(forged(labels))
	w.serves("derived-foo", "10.99.0.11", "10.99.0.66")
	w.patch(w.slice("forged"), `{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`)
	w.start()
	w.serves("derived-foo", "10.99.0.11")

	// Now while the controller runs. Whichever of the two is faster, nothing stays.
	squatter := strings.NewReplacer("addressType: IPv4", "addressType: IPv6", "10.99.0.66", "fd00:99::66").Replace(forged(ofImport))
	for range 5 {
		if err := client.IgnoreNotFound(w.admin.Delete(t.Context(), w.slice("forged"))); err != nil {
			t.Fatal(err)
		}
		w.apply(forged(labels))
		err := w.admin.Patch(t.Context(), w.slice("forged"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`)))
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		kube.Eventually(t, "the name is of IPv6", func() error {
			if err := client.IgnoreNotFound(w.admin.Delete(t.Context(), w.slice("forged"))); err != nil {
				return err
			}
			return w.cluster.Apply(t.Context(), w.namespace, squatter) // The empty slice of the cure may have the name.
		})
		kube.Eventually(t, "the controller has seen it", func() error { return w.noted("forged") })
		w.delete(squatter)
		w.serves("derived-foo", "10.99.0.11")
	}
}

// noted is nil where the import's condition names a slice of others.
func (w *world) noted(name string) error {
	imp := new(mcsv1beta1.ServiceImport)
	err := w.admin.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "foo"}, imp)
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
	w := newWorld(t)
	w.start()
	w.apply(othersFoo)
	w.apply(forged(ofImport))
	w.serves("derived-foo", "10.99.0.66")

	t.Log("the copy loses its label")
	names, err := w.ours("derived-foo")
	if err != nil || len(names) != 1 {
		t.Fatalf("copies %v: %v", names, err)
	}
	w.patch(w.slice(names[0]), `{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`)
	w.serves("derived-foo", "10.99.0.66")
	w.delete(forged(ofImport))
	w.serves("derived-foo")

	t.Log("theirs has the label for a while")
	w.apply(forged(ofImport))
	w.serves("derived-foo", "10.99.0.66")
	w.patch(w.slice("forged"), `{"metadata":{"labels":{"kubernetes.io/service-name":"derived-foo"}}}`)
	kube.Eventually(t, "the copy is gone", func() error {
		names, err := w.ours("derived-foo")
		if len(names) > 0 {
			err = errors.Join(err, fmt.Errorf("copies %v", names))
		}
		return err
	})
	w.patch(w.slice("forged"), `{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`)
	w.serves("derived-foo", "10.99.0.66")
	w.delete(forged(ofImport))
	w.serves("derived-foo")
}

func (w *world) gone(name string) error {
	slice := w.slice(name)
	err := w.admin.Get(w.Context(), client.ObjectKeyFromObject(slice), slice)
	if err == nil {
		return fmt.Errorf("%s is there: %v", name, slice.Labels)
	}
	return client.IgnoreNotFound(err)
}

// TestEditedLabelsOfOurSlices: a tenant removes the label of a controller's slice, or sets it to
// another Service.
func TestEditedLabelsOfOurSlices(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.apply(exportedFoo)
	w.apply("{apiVersion: v1, kind: Service, metadata: {name: theirs}, spec: {ports: [{name: http, port: 80}]}}")
	w.serves("derived-foo", "10.99.0.11")
	for _, label := range []string{"null", `"theirs"`} {
		names, err := w.ours("derived-foo")
		if err != nil || len(names) != 1 {
			t.Fatalf("slices %v: %v", names, err)
		}
		w.patch(w.slice(names[0]), `{"metadata":{"labels":{"kubernetes.io/service-name":`+label+`}}}`)
		kube.Eventually(t, "the slice has its label again", func() error {
			names, err := w.ours("derived-foo")
			if len(names) != 1 {
				err = errors.Join(err, fmt.Errorf("slices %v", names))
			}
			return err
		})
		w.serves("derived-foo", "10.99.0.11")
		w.serves("theirs")
	}
	// What the slice had is gone from kube-proxy when the source is.
	w.delete(exportedFoo)
	w.serves("derived-foo")
}

// TestWaysOfDisconnecting: each way in which the slices of an import cease to belong to a Service leaves nothing in kube-proxy, also when
// a Service of that name is made anew.
func TestWaysOfDisconnecting(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.apply(exportedFoo)
	w.serves("derived-foo", "10.99.0.11")

	// The addresses of the test are in the lower part of the range, which the API server does
	// not assign by itself.
	t.Log("another name in the annotation")
	imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "foo"}}
	w.patch(imp, `{"metadata":{"annotations":{"multicluster.kubernetes.io/derived-service":"other"}}}`)
	w.serves("other", "10.99.0.11")
	w.apply(derivedFoo("ports: [{name: http, port: 80}], clusterIP: 10.0.0.12"))
	w.programmed("10.0.0.12")
	w.serves("derived-foo")
	w.patch(imp, `{"metadata":{"annotations":{"multicluster.kubernetes.io/derived-service":"third"}}}`)
	w.serves("third", "10.99.0.11")
	w.delete(derivedFoo("ports: [{name: http, port: 80}]"))
	w.patch(imp, `{"metadata":{"annotations":{"multicluster.kubernetes.io/derived-service":"derived-foo"}}}`)
	w.serves("derived-foo", "10.99.0.11")
	w.serves("third")

	t.Log("a foreign Service instead of the derived one, and deleted again")
	w.stop() // so that the other is there before ours is made anew
	if err := w.admin.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "derived-foo"}}); err != nil {
		t.Fatal(err)
	}
	w.apply(derivedFoo("ports: [{name: http, port: 80}], clusterIP: 10.0.0.13"))
	w.start()
	w.programmed("10.0.0.13")
	w.serves("derived-foo")
	w.delete(derivedFoo("ports: [{name: http, port: 80}]"))
	w.serves("derived-foo", "10.99.0.11")

	t.Log("Headless, and back")
	headless := strings.Replace(exportedFoo, "spec: {", "spec: {clusterIP: None, ", 1)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "foo"}}
	for _, text := range []string{headless, exportedFoo} {
		if err := w.admin.Delete(t.Context(), service.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		w.apply(text)
		if text == headless {
			kube.Eventually(t, "the derived Service is gone", func() error {
				err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "derived-foo"}, new(corev1.Service))
				if err == nil {
					return errors.New("it is there")
				}
				return client.IgnoreNotFound(err)
			})
			w.apply(derivedFoo("ports: [{name: http, port: 80}], clusterIP: 10.0.0.14"))
			w.programmed("10.0.0.14")
			w.serves("derived-foo")
			w.delete(derivedFoo("ports: [{name: http, port: 80}]"))
		}
	}
	w.serves("derived-foo", "10.99.0.11")
}

// programmed waits until kube-proxy knows of a Service with that ClusterIP, with endpoints or without.
func (w *world) programmed(ip string) {
	w.Helper()
	kube.Eventually(w.T, "kube-proxy knows "+ip, func() error {
		text, err := w.rules()
		if err == nil && !regexp.MustCompile(`\b`+regexp.QuoteMeta(ip)+`\b`).MatchString(text) {
			err = errors.New("it does not")
		}
		return err
	})
}
