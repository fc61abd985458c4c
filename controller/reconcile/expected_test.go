package reconcile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// A plan waits until the caches show what was written. It does not wait forever, and other names do
// not wait.
func TestExpected(t *testing.T) {
	meta := func(version string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: "cart", ResourceVersion: version}
	}
	imp := func(version string) client.Object { return &mcsv1beta1.ServiceImport{ObjectMeta: meta(version)} }
	export := func(version string) client.Object { return &mcsv1beta1.ServiceExport{ObjectMeta: meta(version)} }
	svc := func(version string) client.Object { return &corev1.Service{ObjectMeta: meta(version)} }
	slice := func(version string) client.Object { return &discoveryv1.EndpointSlice{ObjectMeta: meta(version)} }
	tests := []struct {
		name  string
		wrote []client.Object
		shown []client.Object
		want  bool
	}{
		{name: "nothing was written"},
		{name: "an import, and no event", wrote: []client.Object{imp("5")}, want: true},
		{name: "an import, and its event", wrote: []client.Object{imp("5")}, shown: []client.Object{imp("5")}},
		{name: "an import, and an event of its former version", wrote: []client.Object{imp("5")}, shown: []client.Object{imp("4")}, want: true},
		{name: "an import, and a later one's event", wrote: []client.Object{imp("5")}, shown: []client.Object{imp("6")}},
		{name: "versions are numbers", wrote: []client.Object{imp("10")}, shown: []client.Object{imp("9")}, want: true},
		{name: "events of other kinds", wrote: []client.Object{imp("5")}, shown: []client.Object{export("6"), svc("7"), slice("8")}, want: true},
		{name: "an older event after a newer one", wrote: []client.Object{slice("5")}, shown: []client.Object{slice("6"), slice("4")}},
		{name: "one of two slices", wrote: []client.Object{slice("5"), slice("6")}, shown: []client.Object{slice("5")}, want: true},
		{name: "one object twice, and its first version", wrote: []client.Object{svc("5"), svc("6")}, shown: []client.Object{svc("5")}, want: true},
		{name: "an import without its status", wrote: []client.Object{imp("5"), slice("6")}, shown: []client.Object{slice("6")}, want: true},
	}
	now := time.Now()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var e shown
			var cart, other awaited
			for _, object := range test.wrote {
				e.await(&cart, object, now)
			}
			for range 2 { // a pass that must wait changes nothing
				for _, object := range test.shown {
					e.show(object)
				}
				if e.lacks(&other, now) {
					t.Error("another name waits")
				}
				if got := e.lacks(&cart, now.Add(expectFor)); got != test.want {
					t.Errorf("missing: %t, want %t", got, test.want)
				}
			}
			if e.lacks(&cart, now.Add(expectFor+1)) {
				t.Error("it waits forever")
			}
			if len(cart.writes) > 0 {
				t.Error("it is kept forever")
			}
		})
	}
}

// Versions go back when etcd is restored. What was written before is not waited for, and what is written afterwards is.
func TestExpectedAfterARestore(t *testing.T) {
	at := func(version string) client.Object {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", ResourceVersion: version}}
	}
	now := time.Now()
	for name, before := range map[string]string{"an object changes": "900", "an object is new": ""} {
		t.Run(name, func(t *testing.T) {
			var e shown
			var cart awaited
			e.await(&cart, at("910"), now)
			e.show(at("900"))
			e.begin(at("12"), before)
			if e.lacks(&cart, now) {
				t.Error("it waits for what was written before")
			}
			e.await(&cart, at("13"), now)
			if !e.lacks(&cart, now) {
				t.Error("it does not wait for what was written afterwards")
			}
			e.begin(at("13"), "12")
			if e.lacks(&cart, now) {
				t.Error("it waits for what the cache has shown")
			}
		})
	}
}
