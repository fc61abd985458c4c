package charts

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write testdata anew: what a chart has that no base has")

// TestObjectsThatNoBaseHas compares the rest of what the chart can render, in each mode with all on but the dashboard, with testdata. The bases are known from
// TestChartIsTheBases; `go test -update` writes what is rendered now, for you to read.
func TestObjectsThatNoBaseHas(t *testing.T) {
	bases := map[string]bool{}
	for _, base := range []string{"crd", "controller", "peer", "plugin/server", "plugin/cluster-coredns", "client"} {
		for _, object := range kustomize(t, "deploy/"+base) {
			bases[key(object)] = true
		}
	}
	for mode, values := range everything {
		t.Run(mode, func(t *testing.T) {
			values = strings.Replace(values, "dashboard: {enabled: true}\n", "", 1)
			all := map[string]map[string]any{}
			for _, monitor := range []string{"serviceMonitor", "podMonitor"} {
				maps.Copy(all, without(t, render(t, values+monitor+": {enabled: true, interval: 30s, labels: {release: prometheus}}")))
			}
			var text strings.Builder
			for _, name := range slices.Sorted(maps.Keys(all)) {
				if bases[name] {
					continue
				}
				object, err := yaml.Marshal(all[name])
				if err != nil {
					t.Fatal(err)
				}
				text.WriteString("---\n" + string(object))
			}
			isGolden(t, mode, text.String())
		})
	}
}

// TestHooksOfTheTest compares what only `helm test` creates with testdata.
func TestHooksOfTheTest(t *testing.T) {
	text, err := helm(t, "", everything["server"], "template", release, chart, "--namespace", system, "--values", "-", "--show-only", "templates/tests/test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	isGolden(t, "test", text)
}

func isGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
