package charts

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// find is an object that the chart renders, by its kind and name.
func find(t *testing.T, values, name string) map[string]any {
	t.Helper()
	for _, object := range render(t, values) {
		if key(object) == name {
			return object.Object
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

// TestLabelsOfMonitoring: those of the values replace the chart's own.
func TestLabelsOfMonitoring(t *testing.T) {
	const labels = "labels: {app.kubernetes.io/part-of: ours}}\n"
	for _, values := range []string{"serviceMonitor: {enabled: true, " + labels, "podMonitor: {enabled: true, " + labels + "prometheusRule: {enabled: true, " + labels + "dashboard: {enabled: true, " + labels} {
		found := 0
		for _, object := range render(t, c1+values) {
			if kind := object.GetKind(); strings.HasSuffix(kind, "Monitor") || kind == "PrometheusRule" || object.GetName() == "multicluster-dashboard" {
				found++
				if got := object.GetLabels()["app.kubernetes.io/part-of"]; got != "ours" {
					t.Errorf("%s has the label %q", key(object), got)
				}
			}
		}
		if want := 1 + strings.Count(values, "enabled"); found != want {
			t.Errorf("found %d objects, want %d, with\n%s", found, want, values)
		}
	}
}

// TestDashboardIsTheFile: nothing evaluates the templates of Grafana in it.
func TestDashboardIsTheFile(t *testing.T) {
	want, err := os.ReadFile("multicluster/files/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	data := find(t, c1+"dashboard: {enabled: true}", "ConfigMap/multicluster-dashboard")["data"]
	if diff := cmp.Diff(map[string]any{"multicluster.json": string(want)}, data); diff != "" {
		t.Errorf("(-file +data):\n%s", diff)
	}
}

// TestAlertsAreTheFile: nothing evaluates the templates of Prometheus in it.
func TestAlertsAreTheFile(t *testing.T) {
	text, err := os.ReadFile("multicluster/files/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := yaml.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, find(t, c1+"prometheusRule: {enabled: true}", "PrometheusRule/multicluster")["spec"]); diff != "" {
		t.Errorf("(-file +spec):\n%s", diff)
	}
}
