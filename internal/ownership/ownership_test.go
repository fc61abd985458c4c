package ownership

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOwnership(t *testing.T) {
	type marks = map[string]string
	for name, test := range map[string]struct {
		labels, annotations marks
		imp, slice          bool
	}{
		"no marks at all":                    {nil, nil, false, false},
		"an import of the controller":        {marks{"app.kubernetes.io/managed-by": "multicluster-controller"}, nil, true, false},
		"a slice of the controller":          {marks{"endpointslice.kubernetes.io/managed-by": "multicluster-controller"}, nil, false, true},
		"an import of Helm's":                {marks{"app.kubernetes.io/managed-by": "Helm"}, nil, false, false},
		"a slice of Kubernetes' own":         {marks{"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}, nil, false, false},
		"K13 an import that Karmada carries": {marks{"app.kubernetes.io/managed-by": "multicluster-controller", "karmada.io/managed": "true"}, nil, false, false},
		"K13 an import of one of Karmada's works": {marks{"app.kubernetes.io/managed-by": "multicluster-controller"},
			marks{"work.karmada.io/name": "foo"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			object := &metav1.ObjectMeta{Labels: test.labels, Annotations: test.annotations}
			if OfImport(object) != test.imp || OfSlice(object) != test.slice {
				t.Errorf("an import of the controller's: %v, a slice: %v; want %v and %v", OfImport(object), OfSlice(object), test.imp, test.slice)
			}
		})
	}
}

func TestByCilium(t *testing.T) {
	type marks = map[string]string
	cilium := marks{"clustermesh.cilium.io/supported-ip-families": ""}
	for name, test := range map[string]struct {
		labels, annotations marks
		want                bool
	}{
		"an import of Cilium's":                             {nil, cilium, true},
		"an import of a user's":                             {nil, nil, false},
		"an import of the controller, exported with a mark": {marks{"app.kubernetes.io/managed-by": "multicluster-controller"}, cilium, false},
	} {
		if ByCilium(&metav1.ObjectMeta{Labels: test.labels, Annotations: test.annotations}) != test.want {
			t.Errorf("%s: want %v", name, test.want)
		}
	}
}
