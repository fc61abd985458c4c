package charts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterset-dns/multicluster/deploy/peer"
)

// TestChartIsTheBases: what a release has is what `kubectl apply -k` of the bases makes, object by object and field by field.
func TestChartIsTheBases(t *testing.T) {
	for name, test := range map[string]struct {
		values string
		bases  []string
	}{
		"the defaults": {"cluster: {useClusterProperty: true}", []string{"crd", "controller", "peer", "plugin/server"}},
		"the cluster's own CoreDNS": {"{cluster: {useClusterProperty: true}, dns: {mode: cluster}}",
			[]string{"crd", "controller", "peer", "plugin/cluster-coredns"}},
		"a stock CoreDNS": {"{cluster: {useClusterProperty: true}, dns: {mode: stock}}",
			[]string{"crd", "controller", "peer", "plugin/cluster-coredns"}},
		"no DNS":         {"{cluster: {useClusterProperty: true}, dns: {mode: none}}", []string{"crd", "controller", "peer"}},
		"a client pod":   {"{cluster: {useClusterProperty: true}, dns: {mode: none}, clientPod: {enabled: true}}", []string{"crd", "controller", "peer", "client"}},
		"renewed tokens": {"{cluster: {useClusterProperty: true}, dns: {mode: none}, controller: {renewTokens: true}}", []string{"crd", "controller", "peer", "renew"}},
		"no CRDs":        {"{cluster: {useClusterProperty: true}, dns: {mode: none}, crds: {install: false}}", []string{"controller", "peer"}},
		"peers only":     {"{controller: {enabled: false}, dns: {mode: none}, crds: {install: false}}", []string{"peer"}},
		"a second CoreDNS only": {"{controller: {enabled: false}, peerAccount: {create: false}, crds: {install: false}}",
			[]string{"plugin/server"}},
		"nothing": {"{controller: {enabled: false}, dns: {mode: none}, crds: {install: false}, peerAccount: {create: false}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []*unstructured.Unstructured
			for _, base := range test.bases {
				want = append(want, kustomize(t, "deploy/"+base)...)
			}
			if diff := cmp.Diff(oneNamespace(t, want), asBase(t, test.values)); diff != "" {
				t.Errorf("(-bases +chart):\n%s", diff)
			}
		})
	}
}

// TestClusterProfilesAreTheBase: with the base's own namespace, the chart has its Role and its binding.
func TestClusterProfilesAreTheBase(t *testing.T) {
	t.Parallel()
	got := asBase(t, c1+"dns: {mode: none}\ncontroller: {clusterProfiles: "+system+"}")
	for name := range asBase(t, c1+"dns: {mode: none}") {
		delete(got, name)
	}
	if diff := cmp.Diff(oneNamespace(t, kustomize(t, "deploy/cluster-profiles")), got); diff != "" {
		t.Errorf("(-base +chart):\n%s", diff)
	}
}

// TestReadersAreThoseOfThePackage: what the chart renders for a reader is what package peer gives to Go programs.
func TestReadersAreThoseOfThePackage(t *testing.T) {
	const account = "controller: {enabled: false}\ndns: {mode: none}\ncrds: {install: false}\n"
	for _, id := range []string{"member2", "eu.prod.example", "12", "0x1f", "true", strings.Repeat("a", 63)} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			token, err := peer.TokenSecret(id)
			if err != nil {
				t.Fatal(err)
			}
			expiring, err := peer.Reader(id)
			if err != nil {
				t.Fatal(err)
			}
			for values, objects := range map[string][]*unstructured.Unstructured{
				fmt.Sprintf("peerAccount: {readers: [{id: %q}]}", id):                 {token},
				fmt.Sprintf("peerAccount: {readers: [{id: %q, expiring: true}]}", id): expiring,
			} {
				if diff := cmp.Diff(oneNamespace(t, append(objects, peer.Objects()...)), asBase(t, account+values)); diff != "" {
					t.Errorf("%s (-package +chart):\n%s", values, diff)
				}
			}
		})
	}
}

// TestCRDsAreTheBasesFiles: a chart has no files from outside of its folder, so there are two copies.
func TestCRDsAreTheBasesFiles(t *testing.T) {
	for _, name := range []string{"serviceimports.yaml", "serviceexports.yaml"} {
		want, err := os.ReadFile(filepath.Join("..", "crd", name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("multicluster", "files", "crd", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not that of deploy/crd (%v): cp deploy/crd/service*.yaml deploy/charts/multicluster/files/crd/", name, err)
		}
	}
}

// oneNamespace gives the bases' objects the namespace that a release has: without the Namespaces, which Helm makes itself.
func oneNamespace(t *testing.T, all []*unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	plain := map[string]map[string]any{}
	for _, object := range all {
		if object.GetKind() == "Namespace" {
			continue
		}
		text, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		moved := strings.NewReplacer(`"namespace":"multicluster-dns"`, `"namespace":"`+system+`"`, `"namespace":"default"`, `"namespace":"`+system+`"`)
		object = &unstructured.Unstructured{}
		if err := object.UnmarshalJSON([]byte(moved.Replace(string(text)))); err != nil {
			t.Fatal(err)
		}
		plain[key(object)] = uncommented(object.Object)
	}
	return plain
}

// asBase renders the chart, without what only a chart has: its labels, and the annotation by which the CRDs stay, and the rights of the cluster's
// own CoreDNS.
func asBase(t *testing.T, values string) map[string]map[string]any {
	t.Helper()
	all := render(t, values)
	for _, object := range all {
		annotations := object.GetAnnotations()
		if object.GetKind() == "CustomResourceDefinition" && annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s goes with the release, and all its objects with it", key(object))
		}
		delete(annotations, "helm.sh/resource-policy")
		object.SetAnnotations(orNone(annotations))
	}
	plain := without(t, all)
	for _, object := range plain {
		uncommented(object)
	}
	return plain
}

// uncommented takes the comments out of a Corefile.
func uncommented(object map[string]any) map[string]any {
	if corefile, found, _ := unstructured.NestedString(object, "data", "Corefile"); found {
		_ = unstructured.SetNestedField(object, directives(corefile), "data", "Corefile")
	}
	return object
}

// directives of a Corefile: its lines but the comments.
func directives(corefile string) string {
	var kept strings.Builder
	for line := range strings.Lines(corefile) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
