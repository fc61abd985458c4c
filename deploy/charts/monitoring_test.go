package charts

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// embedded is a string field of the one object of a kind that the chart renders.
func embedded(t *testing.T, values, name string, fields ...string) string {
	t.Helper()
	for _, object := range render(t, values) {
		if key(object) == name {
			text, _, _ := unstructured.NestedString(object.Object, fields...)
			return text
		}
	}
	t.Fatalf("there is no %s", name)
	return ""
}

// TestDashboardIsTheFile: nothing evaluates the templates of Grafana in it.
func TestDashboardIsTheFile(t *testing.T) {
	want, err := os.ReadFile("multicluster/files/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := embedded(t, c1+"dashboard: {enabled: true}", "ConfigMap/multicluster-dashboard", "data", "multicluster.json"); got != string(want) {
		t.Errorf("the ConfigMap contains\n%s", got)
	}
}
