package monitoring

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// files is the folder of the chart from which users get the alerts and the dashboard.
const files = "deploy/charts/multicluster/files/monitoring"

func path(t testing.TB, below ...string) string {
	t.Helper()
	root, err := kube.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{root}, below...)...)
}

func read(t testing.TB, below ...string) string {
	t.Helper()
	text, err := os.ReadFile(path(t, below...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// alert is a rule of alerts.yaml, or what Prometheus sends of it.
type alert struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

// alerts returns the alerts of alerts.yaml by their names.
func alerts(t testing.TB) map[string]alert {
	t.Helper()
	var rules struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, files, "alerts.yaml")), &rules, yaml.DisallowUnknownFields); err != nil {
		t.Fatal(err)
	}
	all := map[string]alert{}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if rule.Record == "" {
				all[rule.Alert] = rule
			}
		}
	}
	return all
}

var severity = regexp.MustCompile(`^(critical|warning|\{\{ if [^{}]+ \}\}(critical\{\{ else \}\}warning|warning\{\{ else \}\}critical)\{\{ end \}\})$`)

var section = regexp.MustCompile(`(?m)^## (\S+)$`)

// Each alert has what its receiver needs, and a section of docs/operations/alerts.md. There are at most ten, and no others are described.
func TestEachAlertIsDescribed(t *testing.T) {
	const runbook = "https://github.com/clusterset-dns/multicluster/blob/main/docs/operations/alerts.md#"
	all := alerts(t)
	if len(all) == 0 || len(all) > 10 {
		t.Errorf("there are %d alerts, want 1 to 10", len(all))
	}
	for name, a := range all {
		if len(a.Labels) != 1 || !severity.MatchString(a.Labels["severity"]) {
			t.Errorf("%s has the labels %v, want severity critical or warning, or a template of both", name, a.Labels)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" || a.Annotations["runbook_url"] != runbook+strings.ToLower(name) {
			t.Errorf("%s has the annotations %v, want summary, description, and runbook_url %s", name, a.Annotations, runbook+strings.ToLower(name))
		}
	}
	var described []string
	for _, match := range section.FindAllStringSubmatch(read(t, "docs/operations/alerts.md"), -1) {
		described = append(described, match[1])
	}
	slices.Sort(described)
	if names := slices.Sorted(maps.Keys(all)); !slices.Equal(described, names) {
		t.Errorf("docs/operations/alerts.md has sections for %v, and there are the alerts %v", described, names)
	}
}

// healthy are the series of a healthy cluster, with two controllers, two DNS servers, and three peers. One exports nothing, and the
// token for another lives for an hour and is renewed. A value is for a minute; the run has 150.
var healthy = map[string]string{
	`multicluster_build_info{pod="m-0"}`: "1x149",
	`multicluster_build_info{pod="m-1"}`: "1x149",
	`leader_election_master_status{name="multicluster-controller.clusterset-dns.io",pod="m-0"}`:      "1x149",
	`leader_election_master_status{name="multicluster-controller.clusterset-dns.io",pod="m-1"}`:      "0x149",
	`multicluster_peer_connected{peer="b"}`:                                                          "1x149",
	`multicluster_peer_connected{peer="c"}`:                                                          "1x149",
	`multicluster_peer_info{peer="b",reason="Connected"}`:                                            "1x149",
	`multicluster_peer_data_path{peer="b",verdict="Proven"}`:                                         "1x149",
	`multicluster_peer_data_path{peer="b",verdict="Unknown"}`:                                        "0x149",
	`multicluster_peer_data_path{peer="b",verdict="Dead"}`:                                           "0x149",
	`multicluster_peer_data_path{peer="c",verdict="Unknown"}`:                                        "1x149",
	`multicluster_peer_tested_endpoints{peer="b",accepts="true"}`:                                    "5x149",
	`multicluster_peer_tested_endpoints{peer="b",accepts="false"}`:                                   "0x149",
	`multicluster_peer_tested_endpoints{peer="c",accepts="true"}`:                                    "0x149",
	`multicluster_peer_tested_endpoints{peer="c",accepts="false"}`:                                   "0x149",
	`multicluster_peer_refused{peer="b",limit="max-services"}`:                                       "0x149",
	`multicluster_token_issued_timestamp_seconds{peer="b"}`:                                          "0x39 2400x39 4800x39 7200x29",
	`multicluster_token_expiry_timestamp_seconds{peer="b"}`:                                          "3600x39 6000x39 8400x39 10800x29",
	`multicluster_token_issued_timestamp_seconds{peer="c"}`:                                          "0x149",
	`multicluster_token_expiry_timestamp_seconds{peer="c"}`:                                          "31536000x149",
	`multicluster_serviceexports{condition="Conflict",status="True"}`:                                "0x149",
	`multicluster_serviceexports{condition="Conflict",status="False"}`:                               "7x149",
	`multicluster_serviceimports{condition="ready"}`:                                                 "9x149",
	`multicluster_serviceimports{condition="not_ready"}`:                                             "0x149",
	`multicluster_contested_fields_total{field="spec.ips of the ServiceImport"}`:                     "0x149",
	`multicluster_contested_fields_total{field="spec.ports of the derived Service"}`:                 "3x149",
	`coredns_multicluster_build_info{pod="d-0"}`:                                                     "1x149",
	`coredns_multicluster_build_info{pod="d-1"}`:                                                     "1x149",
	`coredns_multicluster_watch_up{pod="d-0",resource="serviceimports"}`:                             "1x149",
	`coredns_multicluster_watch_up{pod="d-0",resource="endpointslices"}`:                             "1x149",
	`coredns_multicluster_watch_up{pod="d-1",resource="serviceimports"}`:                             "1x149",
	`coredns_multicluster_watch_last_contact_timestamp_seconds{pod="d-0",resource="serviceimports"}`: "0+60x149",
	`coredns_multicluster_watch_last_contact_timestamp_seconds{pod="d-1",resource="serviceimports"}`: "-60+60x149",
}

// fault changes series of the healthy cluster from minute 30 to 89, or for three minutes only.
type fault struct {
	name   string
	change map[string]string // the pattern of series: their value meanwhile, all their values, or "" for none
	want   string            // the only alert at minute 75; "" for none
	// warning is that the alert is one, and can also be critical.
	warning bool
	at      int // another minute
	ended   int // the first minute without it, if it is sooner than the last
}

// crashing are the values of a series of a process that is scraped once in five minutes, for an hour.
var crashing = strings.TrimSpace(strings.Repeat("1 stale _x3 ", 12))

const anyController, anyDNS = `^(multicluster_|leader_)`, `^coredns_`

var faults = []fault{
	{name: "no controller", change: map[string]string{anyController: ""}, want: "MulticlusterControllerDown", ended: 91},
	{name: "the controllers crash again and again", change: map[string]string{`pod="m-0"`: crashing, `pod="m-1"`: ""}, want: "MulticlusterControllerDown"},
	{name: "the only controller crashes before it is the leader", change: map[string]string{`^multicluster_build.*pod="m-0"`: crashing, `^leader`: "", `pod="m-1"`: ""}, want: "MulticlusterControllerDown"},
	{name: "no leader", change: map[string]string{`^multicluster_(peer|token|service|contested)`: "", "^leader_": "0"}, want: "MulticlusterControllerDown"},
	{name: "clusters have no labels", change: map[string]string{`leader_.*pod="m-1"`: "1"}, want: "MulticlusterControllerDown", warning: true, ended: 91},
	{name: "no DNS server", change: map[string]string{anyDNS: ""}, want: "MulticlusterDNSDown"},
	{name: "a DNS server is cut off", change: map[string]string{`watch_up{pod="d-0"`: "0"}, want: "MulticlusterDNSCutOff"},
	{name: "DNS servers hang", change: map[string]string{"watch_last_contact": "1740"}, want: "MulticlusterDNSCutOff"},
	{name: "no API server", change: map[string]string{anyController: "", "watch_up": "0"}, want: "MulticlusterDNSCutOff", ended: 91},
	{name: "the API server of a peer is silent", change: map[string]string{
		`connected{peer="b"`: "0", `info{peer="b"`: "", `path{peer="b",verdict="Proven"`: "0",
	}, want: "MulticlusterPeerDisconnected"},
	{name: "a peer is dead", change: map[string]string{`connected{peer="b"`: "0", `path{peer="b",verdict="Proven"`: "0", `path{peer="b",verdict="Dead"`: "1"}, want: "MulticlusterPeerDataPath"},
	{name: "no way to a peer", change: map[string]string{`path{peer="b",verdict="Proven"`: "0", `path{peer="b",verdict="Unknown"`: "1"}, want: "MulticlusterPeerDataPath", warning: true},
	{name: "a token is not renewed", change: map[string]string{`issued.*peer="b"`: "0", `expiry.*peer="b"`: "5400"}, want: "MulticlusterTokenExpiring"},
	{name: "a token of a year is not replaced", change: map[string]string{`issued.*peer="c"`: "-31000000", `expiry.*peer="c"`: "500000"}, want: "MulticlusterTokenExpiring"},
	{name: "exports are in conflict", change: map[string]string{`Conflict",status="True"`: "2"}, want: "MulticlusterExportsConflict"},
	{name: "limits refuse names", change: map[string]string{"refused": "4"}, want: "MulticlusterPeerRefused"},
	{name: "imports are not ready", change: map[string]string{"not_ready": "3"}, want: "MulticlusterImportsNotReady"},
	{name: "a field is contested", change: map[string]string{"contested.*spec.ports": "4"}, want: "MulticlusterContested", at: 45},
	{name: "addresses are contested", change: map[string]string{"contested.*spec.ips": "4", "not_ready": "1"}, want: "MulticlusterImportsNotReady", at: 50},
}

// brief are faults that pass by themselves, such as a restart.
var brief = []fault{
	{name: "the controllers restart", change: map[string]string{anyController: ""}},
	{name: "the leader changes", change: map[string]string{`leader_.*pod="m-0"`: "0", `leader_.*pod="m-1"`: "0 0 1"}},
	{name: "a rolling restart", change: map[string]string{`pod="m-0"`: "stale _ 1", `leader_.*pod="m-1"`: "0 1 stale"}},
	{name: "the DNS servers restart", change: map[string]string{anyDNS: ""}},
	{name: "a watch is restarted", change: map[string]string{"watch_up": "0"}},
	{name: "a peer restarts", change: map[string]string{"connected": "0", `verdict="Unknown"`: "1", `verdict="Proven"`: "0"}},
	{name: "an import waits for its address", change: map[string]string{"not_ready": "1"}},
}

// TestAlertRules lets promtool evaluate the rules: each fault has one alert, which ends with it, whether all clusters have their own
// Prometheus or share one. A healthy cluster, and one without the plugin, has none.
func TestAlertRules(t *testing.T) {
	kube.NotShort(t) // it can have to build promtool
	all := alerts(t)
	var groups []string
	tested := map[string]bool{}
	for _, f := range faults {
		tested[f.want] = true
		want := f.want
		if f.warning {
			want += "/warning"
		}
		at, ended := cmp.Or(f.at, 75), cmp.Or(f.ended, 149)
		for _, cluster := range []string{"", "east"} {
			groups = append(groups, group(all, f.name, series(f.change, 60, cluster), map[int]string{29: "", at: want, ended: "", min(ended+10, 149): "", 149: ""}, cluster))
		}
	}
	always := map[int]string{}
	for minute := range 150 {
		always[minute] = ""
	}
	for _, f := range brief {
		groups = append(groups, group(all, f.name, series(f.change, 3, ""), always, ""))
	}
	groups = append(groups, group(all, "healthy", series(nil, 0, ""), always, ""))
	stock := series(nil, 0, "")
	maps.DeleteFunc(stock, func(name, _ string) bool { return strings.HasPrefix(name, "coredns_") })
	groups = append(groups, group(all, "another DNS server", stock, always, ""))
	for name := range all {
		if !tested[name] {
			t.Errorf("no fault has the alert %s", name)
		}
	}
	evaluate(t, "1m", groups)
}

// TestAlertsAfterDays: what is gone is not forgotten over a weekend, and what a limit refuses all the time is not news. A leader that
// starts has counted nothing yet.
func TestAlertsAfterDays(t *testing.T) {
	kube.NotShort(t) // it can have to build promtool
	const hour, day = 60, 24 * 60
	all := alerts(t)
	var groups []string
	for _, f := range []struct {
		name   string
		series map[string]string // a value is for ten minutes
		want   map[int]string
	}{
		{"the controller is gone", map[string]string{"multicluster_build_info": "1x5 stale"}, map[int]string{
			30: "", 2 * hour: "MulticlusterControllerDown", 30 * hour: "MulticlusterControllerDown", 13 * day: "MulticlusterControllerDown", 15 * day: "",
		}},
		{"the DNS server is gone", map[string]string{"coredns_multicluster_build_info": "1x5 stale"}, map[int]string{
			30: "", 2 * hour: "MulticlusterDNSDown", 30 * hour: "MulticlusterDNSDown", 13 * day: "MulticlusterDNSDown", 15 * day: "",
		}},
		{"a limit refuses", map[string]string{
			`multicluster_peer_refused{peer="b",limit="namespaces",pod="m-0"}`: "4x179 stale",           // from the beginning
			`multicluster_peer_refused{peer="b",limit="namespaces",pod="m-1"}`: "_x180 0 0 4x358 7x360", // 7 after 90 hours
			`multicluster_peer_refused{peer="c",limit="namespaces",pod="m-0"}`: "0x899",
		}, map[int]string{
			2 * hour: "MulticlusterPeerRefused", 17 * hour: "MulticlusterPeerRefused", 25 * hour: "", 29 * hour: "", 31 * hour: "", 54 * hour: "", 89 * hour: "",
			91 * hour: "MulticlusterPeerRefused", 107 * hour: "MulticlusterPeerRefused", 115 * hour: "", 140 * hour: "",
		}},
	} {
		groups = append(groups, strings.ReplaceAll(group(all, f.name, f.series, f.want, ""), "interval: 1m", "interval: 10m"))
	}
	evaluate(t, "10m", groups)
}

// TestOwnCoreDNS: with dns.mode=stock, the expressions that docs/operations/alerts.md has instead of alerts see each fault, and none in a
// healthy cluster.
func TestOwnCoreDNS(t *testing.T) {
	kube.NotShort(t) // it can have to build promtool
	_, text, found := strings.Cut(read(t, "docs/operations/alerts.md"), "## The cluster's own CoreDNS\n")
	expressions := regexp.MustCompile(`(?m)^    (\S.*)$`).FindAllStringSubmatch(text, -1)
	if !found || len(expressions) != 3 {
		t.Fatalf("docs/operations/alerts.md has %d expressions about the cluster's own CoreDNS, want 3", len(expressions))
	}
	var test strings.Builder
	test.WriteString(`- input_series:
  - {series: 'coredns_build_info{pod="k-0"}', values: '1x29 stale'}
  - {series: 'coredns_build_info{pod="k-1"}', values: '_x5 1x24 stale'}
  - {series: 'coredns_dns_responses_total{zone=".",rcode="NOERROR"}', values: '0+100x60'}
  - {series: 'coredns_dns_responses_total{zone=".",rcode="SERVFAIL"}', values: '0x29 0+5x30'}
  - {series: 'coredns_kubernetes_rest_client_requests_total{code="200"}', values: '0+1x60'}
  - {series: 'coredns_kubernetes_rest_client_requests_total{code="<error>"}', values: '0x29 0+1x30'}
  promql_expr_test:
`)
	for _, of := range expressions {
		for minute, samples := range map[int]string{20: "", 50: "{labels: '{}', value: 1}"} {
			fmt.Fprintf(&test, "  - {expr: 'count(%s)', eval_time: %dm, exp_samples: [%s]}\n", of[1], minute, samples)
		}
	}
	evaluate(t, "1m", []string{test.String()})
}

// evaluate lets promtool run tests of the rules.
func evaluate(t *testing.T, interval string, groups []string) {
	t.Helper()
	_, promtool, err := Programs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("rule_files: [%q]\nevaluation_interval: %s\ntests:\n%s", path(t, files, "alerts.yaml"), interval, strings.Join(groups, ""))
	file := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// series returns the series of a run in which something changes at minute 30, for some minutes. With the ID of a cluster, it also has
// those of another one, which is healthy.
func series(change map[string]string, minutes int, cluster string) map[string]string {
	all := map[string]string{}
	for name, values := range healthy {
		of := name
		if cluster != "" {
			all[withCluster(name, "healthy")] = values
			of = withCluster(name, cluster)
		}
		all[of] = values
		for pattern, meanwhile := range change {
			if regexp.MustCompile(pattern).MatchString(name) {
				all[of] = changed(values, meanwhile, minutes)
			}
		}
	}
	return all
}

func withCluster(name, cluster string) string {
	return strings.TrimSuffix(name, "}") + fmt.Sprintf(",cluster=%q}", cluster)
}

var constant = regexp.MustCompile(`^(-?\d+(?:\+\d+)?)x149$`)

// changed returns the values of a series before, while and after something else holds.
func changed(values, meanwhile string, minutes int) string {
	during := fmt.Sprintf("%sx%d", meanwhile, minutes-1)
	switch {
	case strings.Contains(meanwhile, " "):
		during = meanwhile
	case meanwhile == "":
		during = "stale"
		if minutes > 1 {
			during += fmt.Sprintf(" _x%d", minutes-1)
		}
	}
	switch before := constant.FindStringSubmatch(values); {
	case before == nil: // the token that is renewed
		return fmt.Sprintf("%sx29 %s %sx%d", values[:strings.Index(values, "x")], during, strings.TrimSuffix(values[strings.LastIndex(values, " ")+1:], "x29"), 119-minutes)
	case strings.Contains(before[1], "+"): // a time that moves on
		return fmt.Sprintf("%sx29 %s %d+60x%d", before[1], during, 60*(30+minutes), 119-minutes)
	default:
		return fmt.Sprintf("%sx29 %s %sx%d", before[1], during, before[1], 119-minutes)
	}
}

// group returns a test of promtool: at each minute, exactly one alert fires, or none. An alert whose severity is a template is critical,
// unless "/warning" is after its name.
func group(all map[string]alert, name string, input map[string]string, want map[int]string, cluster string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "- name: %q\n  interval: 1m\n  input_series:\n", name+" "+cluster)
	for _, of := range slices.Sorted(maps.Keys(input)) {
		fmt.Fprintf(&text, "  - {series: '%s', values: '%s'}\n", of, input[of])
	}
	text.WriteString("  promql_expr_test:\n")
	for _, minute := range slices.Sorted(maps.Keys(want)) {
		samples := ""
		if alert := want[minute]; alert != "" {
			name, grade, found := strings.Cut(alert, "/")
			if grade = cmp.Or(grade, all[name].Labels["severity"]); !found && strings.Contains(grade, "{") {
				grade = "critical"
			}
			labels := fmt.Sprintf("alertname=%q,severity=%q", name, grade)
			if cluster != "" {
				labels += fmt.Sprintf(",cluster=%q", cluster)
			}
			samples = fmt.Sprintf("{labels: '{%s}', value: 1}", labels)
		}
		fmt.Fprintf(&text, "  - {expr: 'count by (alertname, cluster, severity) (ALERTS{alertstate=\"firing\"})', eval_time: %dm, exp_samples: [%s]}\n", minute, samples)
	}
	return text.String()
}
