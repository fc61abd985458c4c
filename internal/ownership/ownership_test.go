package ownership

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
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
		"an import of Cilium's, with the label of an export": {marks{"app.kubernetes.io/managed-by": "multicluster-controller"},
			marks{"clustermesh.cilium.io/supported-ip-families": "IPv4"}, false, false},
		"an import of the controller, with an annotation that somebody added": {marks{"app.kubernetes.io/managed-by": "multicluster-controller"},
			marks{"clusterset-dns.io/exports": "{}", "clustermesh.cilium.io/supported-ip-families": "IPv4"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			object := &metav1.ObjectMeta{Labels: test.labels, Annotations: test.annotations}
			if OfImport(object) != test.imp || OfSlice(object) != test.slice {
				t.Errorf("an import of the controller's: %v, a slice: %v; want %v and %v", OfImport(object), OfSlice(object), test.imp, test.slice)
			}
		})
	}
}

func TestKeeper(t *testing.T) {
	type marks = map[string]string
	of := func(manager string) []*discoveryv1.EndpointSlice {
		return []*discoveryv1.EndpointSlice{{ObjectMeta: metav1.ObjectMeta{Labels: marks{"endpointslice.kubernetes.io/managed-by": manager}}}}
	}
	ours := marks{"app.kubernetes.io/managed-by": "multicluster-controller"}
	cilium := marks{"clustermesh.cilium.io/supported-ip-families": ""}
	for name, test := range map[string]struct {
		labels, annotations marks
		slices              []*discoveryv1.EndpointSlice
		want                string
	}{
		"an import of a user's":                         {nil, nil, of("a-user"), ""},
		"an import of Cilium's":                         {nil, cilium, nil, "Cilium"},
		"an import of Cilium's, with an exported label": {ours, cilium, nil, "Cilium"},
		"an import of the controller":                   {ours, marks{"kosmos.io/address": "10.0.0.1"}, of("lighthouse-agent.submariner.io"), ""},
		"an import in Submariner's namespace":           {marks{"lighthouse.submariner.io/sourceNamespace": "default"}, nil, nil, "Submariner"},
		"an import with slices of Submariner's":         {nil, nil, of("lighthouse-agent.submariner.io"), "Submariner"},
		"an import of Kosmos'":                          {nil, marks{"kosmos.io/address": "10.0.0.1"}, nil, "Kosmos"},
	} {
		if got := Keeper(&metav1.ObjectMeta{Labels: test.labels, Annotations: test.annotations}, test.slices); got != test.want {
			t.Errorf("%s: %q; want %q", name, got, test.want)
		}
	}
}

func TestKarmadasCluster(t *testing.T) {
	for slice, want := range map[string]string{
		"imported-member1-db-x7k2p":  "member1",
		"imported-eu-1-db-x7k2p":     "eu-1",
		"imported-a-db-db-x7k2p":     "a-db",
		"imported-a.b-db-x7k2p":      "a.b",
		"imported-member1-other-x7k": "",
		"imported-db-x7k2p":          "",
		"member1-db-x7k2p":           "", // of a MultiClusterService
	} {
		if got := KarmadasCluster(slice, "db"); got != want {
			t.Errorf("%s: %q, want %q", slice, got, want)
		}
	}
}
