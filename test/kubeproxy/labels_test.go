package kubeproxy

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/world"
)

// kube-proxy ignores an update of an EndpointSlice that removes the label kubernetes.io/service-name or changes it, and the deletion
// that follows.

var (
	ofDerived = map[string]string{discoveryv1.LabelServiceName: "derived-foo"}
	ofImport  = map[string]string{mcsv1beta1.LabelServiceName: "foo"}
	ofBoth    = map[string]string{discoveryv1.LabelServiceName: "derived-foo", mcsv1beta1.LabelServiceName: "foo"}
)

const loseService = `{"metadata":{"labels":{"kubernetes.io/service-name":null}}}`

// forged is a slice that a tenant makes, with some labels.
func forged(labels map[string]string) *discoveryv1.EndpointSlice {
	return world.Slice("forged", labels, "10.99.0.66")
}

// ofUser is a Service of a user, with that ClusterIP if one is given.
func ofUser(name, ip string) *corev1.Service {
	return world.Service(name, func(spec *corev1.ServiceSpec) { spec.ClusterIP = ip })
}

// exports exports foo, and waits for its endpoint.
func (s *stage) exports() {
	s.Helper()
	s.start()
	s.Export("c1", world.Service("foo"), "10.99.0.11")
	s.serves("derived-foo", "10.99.0.11")
}

// TestKubeProxyKeepsWhatLosesItsLabel holds the fact that the controller's rule rests on, and the cure. The two other labels that kube-proxy
// knows do no such harm.
func TestKubeProxyKeepsWhatLosesItsLabel(t *testing.T) {
	s := newStage(t)
	s.Create("c1", ofUser("derived-foo", ""))
	second := world.Slice("second", ofDerived, "10.99.0.12")

	t.Log("a slice with the label of headless Services is deleted for kube-proxy")
	s.Apply("c1", forged(ofDerived))
	s.serves("derived-foo", "10.99.0.66")
	s.patch(s.slice("forged"), `{"metadata":{"labels":{"service.kubernetes.io/headless":""}}}`)
	s.serves("derived-foo")
	s.Delete("c1", forged(ofDerived))

	t.Log("one with the label of another proxy serves on: that label is for Services")
	s.Apply("c1", forged(ofDerived))
	s.patch(s.slice("forged"), `{"metadata":{"labels":{"service.kubernetes.io/service-proxy-name":"another"}}}`)
	s.Apply("c1", second) // When kube-proxy has this one, it has seen all that was before.
	s.serves("derived-foo", "10.99.0.12", "10.99.0.66")
	s.Delete("c1", forged(ofDerived))
	s.serves("derived-foo", "10.99.0.12")
	s.Delete("c1", second)
	s.serves("derived-foo")

	t.Log("one that loses the label of its Service serves on, also when it is deleted; an empty one in its place is the cure")
	s.Apply("c1", forged(ofDerived))
	s.serves("derived-foo", "10.99.0.66")
	s.patch(s.slice("forged"), loseService)
	s.Delete("c1", forged(ofDerived))
	s.Apply("c1", second)
	s.serves("derived-foo", "10.99.0.12", "10.99.0.66")
	empty := world.Slice("forged", ofDerived)
	s.Apply("c1", empty)
	s.serves("derived-foo", "10.99.0.12")
	s.Delete("c1", empty)
	s.serves("derived-foo", "10.99.0.12")
}

// TestForgedEndpointsLeaveKubeProxy: however a tenant gives endpoints to the derived Service of an import of ours, and takes the label away
// again, they do not stay in kube-proxy.
func TestForgedEndpointsLeaveKubeProxy(t *testing.T) {
	s := newStage(t)
	s.exports()

	for what, labels := range map[string]map[string]string{
		"a slice of the import":   ofBoth,
		"a slice of another kind": ofDerived,
		"a slice with our mark": {
			discoveryv1.LabelServiceName: "derived-foo", mcsv1beta1.LabelServiceName: "foo", discoveryv1.LabelManagedBy: "multicluster-controller",
		},
		"a slice of another import": {discoveryv1.LabelServiceName: "derived-foo", mcsv1beta1.LabelServiceName: "bar"},
	} {
		t.Log(what + " is made")
		s.Apply("c1", forged(labels))
		s.Until("it is deleted", func() error { return s.Gone("c1", new(discoveryv1.EndpointSlice), "forged") })
		s.serves("derived-foo", "10.99.0.11")

		t.Log(what + " is made and loses its label, all labels, or itself at once")
		for _, patch := range []string{`{"kubernetes.io/service-name":null}`, `{"kubernetes.io/service-name":"other"}`,
			`{"kubernetes.io/service-name":null,"multicluster.kubernetes.io/service-name":null}`} {
			s.Apply("c1", forged(labels))
			slice := s.slice("forged")
			err := s.Admin("c1").Patch(t.Context(), slice, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":`+patch+`}}`)))
			s.Must(client.IgnoreNotFound(err))
			s.removed(slice)
			s.Until("it is gone", func() error { return s.Gone("c1", new(discoveryv1.EndpointSlice), "forged") })
			s.serves("derived-foo", "10.99.0.11")
		}

		if labels[mcsv1beta1.LabelServiceName] != "foo" {
			continue // Without the import's name, nothing shows that the slice has lost its label while no controller ran.
		}
		t.Log(what + " is made and loses its label while no controller runs")
		s.stop()
		s.Apply("c1", forged(labels))
		s.serves("derived-foo", "10.99.0.11", "10.99.0.66")
		s.patch(s.slice("forged"), loseService)
		s.start()
		s.serves("derived-foo", "10.99.0.11")
		s.removed(s.slice("forged"))
	}
}

// TestForgedNameOfAnotherFamily: a tenant gives the name of what has leaked to a slice of IPv6, so that no empty slice of IPv4 can have it. The cure
// waits until the name is free.
func TestForgedNameOfAnotherFamily(t *testing.T) {
	s := newStage(t)
	s.exports()
	s.stop()
	s.Apply("c1", forged(ofBoth))
	s.serves("derived-foo", "10.99.0.11", "10.99.0.66")
	s.patch(s.slice("forged"), loseService)
	s.start()
	s.serves("derived-foo", "10.99.0.11")

	// Now while the controller runs. Whichever of the two is faster, nothing stays.
	squatter := world.Slice("forged", ofImport, "fd00:99::66")
	squatter.AddressType = discoveryv1.AddressTypeIPv6
	for range 5 {
		s.removed(s.slice("forged"))
		s.Apply("c1", forged(ofBoth))
		err := s.Admin("c1").Patch(t.Context(), s.slice("forged"), client.RawPatch(types.MergePatchType, []byte(loseService)))
		s.Must(client.IgnoreNotFound(err))
		s.Until("the name is of IPv6", func() error {
			s.removed(s.slice("forged"))
			return s.TryApply("c1", squatter) // The empty slice of the cure may have the name.
		})
		world.Becomes(s.Namespace, "c1", new(mcsv1beta1.ServiceImport), "foo", "the controller has seen it", func(imp *mcsv1beta1.ServiceImport) bool {
			return slices.ContainsFunc(imp.Status.Conditions, func(c metav1.Condition) bool { return strings.Contains(c.Message, "forged") })
		})
		s.Delete("c1", squatter)
		s.serves("derived-foo", "10.99.0.11")
	}
}

// TestImportsOfOthersLeaveNothingInKubeProxy: slices of others are copied for kube-proxy. Whatever label comes and goes on theirs or on the copy, only what
// is there serves.
func TestImportsOfOthersLeaveNothingInKubeProxy(t *testing.T) {
	s := newStage(t)
	s.start()
	s.Create("c1", world.Import("foo", mcsv1beta1.ClusterSetIP))
	s.Apply("c1", forged(ofImport))
	s.serves("derived-foo", "10.99.0.66")

	t.Log("the copy loses its label")
	s.patch(s.slice(s.ours("derived-foo", 1)[0]), loseService)
	s.serves("derived-foo", "10.99.0.66")
	s.Delete("c1", forged(ofImport))
	s.serves("derived-foo")

	t.Log("theirs has the label for a while")
	s.Apply("c1", forged(ofImport))
	s.serves("derived-foo", "10.99.0.66")
	s.patch(s.slice("forged"), `{"metadata":{"labels":{"kubernetes.io/service-name":"derived-foo"}}}`)
	s.ours("derived-foo", 0) // the copy is gone
	s.patch(s.slice("forged"), loseService)
	s.serves("derived-foo", "10.99.0.66")
	s.Delete("c1", forged(ofImport))
	s.serves("derived-foo")
}

// TestEditedLabelsOfOurSlices: a tenant removes the label of a controller's slice, or sets it to
// another Service.
func TestEditedLabelsOfOurSlices(t *testing.T) {
	s := newStage(t)
	s.exports()
	s.Create("c1", ofUser("theirs", ""))
	s.programmed(s.clusterIP("theirs"))
	for _, label := range []string{"null", `"theirs"`} {
		s.patch(s.slice(s.ours("derived-foo", 1)[0]), `{"metadata":{"labels":{"kubernetes.io/service-name":`+label+`}}}`)
		s.ours("derived-foo", 1) // it has its label again
		s.serves("derived-foo", "10.99.0.11")
		s.serves("theirs")
	}
	// What the slice had is gone from kube-proxy when the source is.
	foo := world.Service("foo")
	s.Delete("c1", foo, world.Endpoints(foo, ""), world.Export("foo"))
	s.serves("derived-foo")
}

// TestWaysOfDisconnecting: each way in which the slices of an import cease to belong to a Service leaves nothing in kube-proxy, also when
// a Service of that name is made anew.
func TestWaysOfDisconnecting(t *testing.T) {
	s := newStage(t)
	s.exports()

	// The addresses of the test are in the lower part of the range, which the API server does
	// not assign by itself.
	t.Log("another name in the annotation")
	imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "foo"}}
	s.patch(imp, `{"metadata":{"annotations":{"multicluster.kubernetes.io/derived-service":"other"}}}`)
	s.serves("other", "10.99.0.11")
	s.Create("c1", ofUser("derived-foo", "10.0.0.12"))
	s.programmed("10.0.0.12")
	s.serves("derived-foo")
	s.patch(imp, `{"metadata":{"annotations":{"multicluster.kubernetes.io/derived-service":"third"}}}`)
	s.serves("third", "10.99.0.11")
	s.Delete("c1", ofUser("derived-foo", ""))
	s.patch(imp, `{"metadata":{"annotations":{"multicluster.kubernetes.io/derived-service":"derived-foo"}}}`)
	s.serves("derived-foo", "10.99.0.11")
	s.serves("third")

	t.Log("a foreign Service instead of the derived one, and deleted again")
	s.stop() // so that the other is there before ours is made anew
	s.Delete("c1", ofUser("derived-foo", ""))
	s.Create("c1", ofUser("derived-foo", "10.0.0.13"))
	s.start()
	s.programmed("10.0.0.13")
	s.serves("derived-foo")
	s.Delete("c1", ofUser("derived-foo", ""))
	s.serves("derived-foo", "10.99.0.11")

	t.Log("Headless, and back")
	s.Delete("c1", world.Service("foo"))
	s.Create("c1", world.Service("foo", world.Headless))
	s.Until("the derived Service is gone", func() error { return s.Gone("c1", new(corev1.Service), "derived-foo") })
	s.Create("c1", ofUser("derived-foo", "10.0.0.14"))
	s.programmed("10.0.0.14")
	s.serves("derived-foo")
	s.Delete("c1", ofUser("derived-foo", ""))
	s.Delete("c1", world.Service("foo"))
	s.Create("c1", world.Service("foo"))
	s.serves("derived-foo", "10.99.0.11")
}

// programmed waits until kube-proxy knows of a Service with that ClusterIP, with endpoints or without.
func (s *stage) programmed(ip string) {
	s.Helper()
	s.Until("kube-proxy knows "+ip, func() error {
		text, err := s.rules()
		if err == nil && !regexp.MustCompile(`\b`+regexp.QuoteMeta(ip)+`\b`).MatchString(text) {
			err = errors.New("it does not")
		}
		return err
	})
}
