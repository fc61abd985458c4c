package charts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// corefile is that of the ConfigMap that the chart renders.
func corefile(t *testing.T, values string) string {
	t.Helper()
	for _, object := range render(t, values) {
		if object.GetKind() == "ConfigMap" {
			text, _, _ := unstructured.NestedString(object.Object, "data", "Corefile")
			return text
		}
	}
	t.Fatal("there is no ConfigMap")
	return ""
}

// replace is the mode in which the chart runs the cluster's own CoreDNS; the values of dns follow.
const replace = "cluster: {id: c1}\ndns:\n  mode: replace\n  clusterIP: 10.0.0.10\n"

// TestCorefilesAreThoseOfTheExamples: these are the ones that test/dns proves.
func TestCorefilesAreThoseOfTheExamples(t *testing.T) {
	for example, values := range map[string]string{
		"stock":               replace,
		"autopath":            replace + "  autopath: true\n",
		"alias":               replace + "  plugin: {alias: [cluster.local]}\n",
		"second-server":       "cluster: {id: c1}\n",
		"alias-second-server": "{cluster: {id: c1}, dns: {plugin: {alias: [cluster.local]}}}",
	} {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(filepath.Join(binaries.Root(), "corefile-examples", example+".Corefile"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(directives(string(want)), corefile(t, values)); diff != "" {
				t.Errorf("(-example +chart):\n%s", diff)
			}
		})
	}
}
