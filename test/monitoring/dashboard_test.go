package monitoring

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// panel is a panel of dashboard.json.
type panel struct {
	Title, Type     string
	Transformations []struct{ ID string }
	Targets         []struct{ Expr, LegendFormat string }
}

// panels returns the panels of dashboard.json.
func panels(t testing.TB) []panel {
	t.Helper()
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal([]byte(read(t, files, "dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) < 15 {
		t.Fatalf("the dashboard has %d panels: it was not read", len(dashboard.Panels))
	}
	return dashboard.Panels
}

var (
	label   = regexp.MustCompile(`\{\{(\w+)\}\}`)
	grouped = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// TestPanelsSeparateClusters: no panel adds up clusters, and each series has a name of its own: all labels that it is grouped by. Grafana
// shows only the first of several tables, unless they are merged.
func TestPanelsSeparateClusters(t *testing.T) {
	for _, p := range panels(t) {
		if merges := len(p.Transformations) > 0 && p.Transformations[0].ID == "merge"; p.Type == "table" && len(p.Targets) > 1 && !merges {
			t.Errorf("%s has %d tables, which are not merged", p.Title, len(p.Targets))
		}
		for _, target := range p.Targets {
			named := []string{"le"}
			for _, match := range label.FindAllStringSubmatch(target.LegendFormat, -1) {
				named = append(named, match[1])
			}
			for _, match := range grouped.FindAllStringSubmatch(target.Expr, -1) {
				by := strings.Split(match[1], ", ")
				if !slices.Contains(by, "cluster") {
					t.Errorf("%s adds up clusters: %s", p.Title, target.Expr)
				}
				for _, of := range by {
					if p.Type != "table" && !slices.Contains(named, of) {
						t.Errorf("%s: the name %q is without %s", p.Title, target.LegendFormat, of)
					}
				}
			}
		}
	}
}

// TestPanelsOfTwoClusters: watches are a share of all, and versions are those of both programs, of each cluster.
func TestPanelsOfTwoClusters(t *testing.T) {
	kube.NotShort(t) // it can have to build promtool
	want := map[string][]string{
		"Watches that work": {`{labels: '{cluster="east",resource="serviceimports"}', value: 0.5}, {labels: '{cluster="west",resource="serviceimports"}', value: 1}`},
		"Versions": {
			`{labels: '{cluster="east",program="controller",version="v1"}', value: 2}, {labels: '{cluster="west",program="controller",version="v2"}', value: 1}`,
			`{labels: '{cluster="east",program="CoreDNS",version="v1"}', value: 2}, {labels: '{cluster="west",program="CoreDNS",version="v2"}', value: 1}`,
		},
	}
	var test strings.Builder
	test.WriteString("- input_series:\n")
	for _, of := range []string{`cluster="east",pod="0",version="v1"`, `cluster="east",pod="1",version="v1"`, `cluster="west",pod="0",version="v2"`} {
		up := 1
		if strings.Contains(of, `pod="1"`) {
			up = 0
		}
		fmt.Fprintf(&test, "  - {series: 'multicluster_build_info{%[1]s}', values: '1'}\n  - {series: 'coredns_multicluster_build_info{%[1]s}', values: '1'}\n"+
			"  - {series: 'coredns_multicluster_watch_up{resource=\"serviceimports\",%[1]s}', values: '%[2]d'}\n", of, up)
	}
	test.WriteString("  promql_expr_test:\n")
	for _, p := range panels(t) {
		if samples, found := want[p.Title]; found {
			if len(p.Targets) != len(samples) {
				t.Fatalf("%s has %d queries, want %d", p.Title, len(p.Targets), len(samples))
			}
			for i, target := range p.Targets {
				fmt.Fprintf(&test, "  - {expr: '%s', eval_time: 0m, exp_samples: [%s]}\n", strings.ReplaceAll(target.Expr, "$cluster", ".*"), samples[i])
			}
			delete(want, p.Title)
		}
	}
	if len(want) > 0 {
		t.Errorf("the dashboard has no panels %v", want)
	}
	evaluate(t, "1m", []string{test.String()})
}
