package watch

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// What the controller manages is known by its marks.
func TestTrimKeepsOwnership(t *testing.T) {
	type marks = map[string]string
	const key, sliceKey, ours = "app.kubernetes.io/managed-by", "endpointslice.kubernetes.io/managed-by", "multicluster-controller"
	for name, test := range map[string]struct {
		labels marks
		want   bool
	}{
		"no mark":                      {nil, false},
		"the controller's":             {marks{key: ours}, true},
		"somebody else's":              {marks{key: "Helm"}, false},
		"K13 one that Karmada carries": {marks{key: ours, "karmada.io/managed": "true"}, false},
	} {
		in := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db", Labels: test.labels}}
		in.Spec.Type = mcsv1beta1.Headless
		if got := trimImport(slim(t, in)).value.Managed; got != test.want {
			t.Errorf("an import with %s: %v", name, got)
		}
	}
	for name, test := range map[string]struct {
		manager string
		want    bool
	}{
		"no mark": {"", false}, "the controller's": {ours, true}, "Kubernetes' own": {"endpointslice-controller.k8s.io", false},
	} {
		in := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-1", Labels: marks{mcsv1beta1.LabelServiceName: "db", sliceKey: test.manager}}}
		if got := trimSlice(in).value.Managed; got != test.want {
			t.Errorf("a slice with %s: %v", name, got)
		}
		in.Labels["clusterset-dns.io/standby"] = "true"
		if got := trimSlice(in).value.Standby; got != test.want {
			t.Errorf("a slice on standby with %s: %v", name, got)
		}
	}
}

// A slice of the controller's is gone once it is being deleted, whatever holds it; what others hold is theirs.
func TestTrimOfSlicesThatAreBeingDeleted(t *testing.T) {
	for manager, want := range map[string]bool{"multicluster-controller": false, "me": true, "": true} {
		in := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-1", DeletionTimestamp: new(metav1.Now()), Finalizers: []string{"example.org/held"},
			Labels: map[string]string{mcsv1beta1.LabelServiceName: "db", "endpointslice.kubernetes.io/managed-by": manager}}}
		if got := trimSlice(in).value != nil; got != want {
			t.Errorf("one that %q manages counts: %v, want %v", manager, got, want)
		}
	}
}
