package charts

import (
	"regexp"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// previous is the chart as of the last release, or, as there is none yet, of commit c5dd75b: `helm package deploy/charts/multicluster`.
const previous = "deploy/charts/testdata/previous.tgz"

// formerlyOn are values of the previous chart.
const formerlyOn = `
cluster: {id: c1, peerTimeout: 1m}
peers: [{name: c2, kubeconfig: "apiVersion: v1"}]
peerAccount: {readers: [{id: c2}, {id: "3", expiring: true}]}
controller: {clusterProfiles: default, args: [--kubeconfig=], podDisruptionBudget: {enabled: true}}
networkPolicy: {enabled: true}
clientPod: {enabled: true}
`

// TestUpgradeFromThePreviousChart upgrades a release by the documented flags: no immutable field changes, and each object is still the same
// one.
func TestUpgradeFromThePreviousChart(t *testing.T) {
	c := shared.Cluster(t)
	for mode, dns := range map[string]string{
		"server":  "dns: {mode: server, clusterIP: 10.0.0.11, podDisruptionBudget: {enabled: true}}",
		"replace": "dns: {mode: replace, clusterIP: 10.0.0.10, podDisruptionBudget: {enabled: true}, autopath: true}",
	} {
		onCluster(t, c, formerlyOn+dns, "install", release, previous, "--create-namespace", "--values", "-")
		before := uids(t, c)
		if len(before) < 15 {
			t.Fatalf("the previous chart has created %v", before)
		}
		refusesStored(t, c)
		onCluster(t, c, "", append([]string{"upgrade", release, chart, "--reset-then-reuse-values"}, renamed(t)...)...)
		after := uids(t, c)
		for name, uid := range before {
			if after[name] != uid {
				t.Errorf("in mode %s, %s was %s and is %q", mode, name, uid, after[name])
			}
		}
		onCluster(t, c, "", "uninstall", release)
	}
}

// refusesStored wants the messages for stored values that lack those that are new, and for the flags by their former name.
func refusesStored(t *testing.T, c *kube.Cluster) {
	t.Helper()
	for flag, want := range map[string]string{
		"--reuse-values":            "use --reset-then-reuse-values instead",
		"--reset-then-reuse-values": `add --set controller.args=null --set-json 'controller.extraArgs=["--kubeconfig="]'`,
	} {
		if _, err := helm(t, c.Kubeconfig, "", "upgrade", release, chart, "--namespace", system, flag); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", flag, err, want)
		}
	}
}

// renamed are the flags of upgrade.md for the former name of the controller's flags.
func renamed(t *testing.T) []string {
	t.Helper()
	flags := regexp.MustCompile("`(--set controller.args=null --set-json) '(.*)'`").FindStringSubmatch(document(t, "docs/operations/upgrade.md"))
	if flags == nil {
		t.Fatal("upgrade.md has no flags for controller.args")
	}
	return append(strings.Fields(flags[1]), flags[2])
}

// uids are those of the objects of the release, by kind and name.
func uids(t *testing.T, c *kube.Cluster) map[string]string {
	t.Helper()
	const kinds = "deployments,services,configmaps,secrets,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,poddisruptionbudgets,networkpolicies,customresourcedefinitions"
	all := map[string]string{}
	for line := range strings.Lines(kubectl(t, c, "get", kinds, "-A", "-l", "app.kubernetes.io/instance="+release, "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid}{"\n"}{end}`)) {
		name, uid, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = uid
	}
	return all
}

// TestAutoscalerTakesOver: upgrades leave the number of replicas to it, also the one that switches it on.
func TestAutoscalerTakesOver(t *testing.T) {
	c := shared.Cluster(t)
	defer onCluster(t, c, "", "uninstall", release)
	onCluster(t, c, c1+"dns: {replicas: 3}", "install", release, chart, "--create-namespace", "--values", "-")
	for _, wanted := range []string{"3", "5"} {
		kubectl(t, c, "scale", "deployment", "multicluster-dns", "--namespace="+system, "--replicas="+wanted) // as the autoscaler does
		for range 2 {
			onCluster(t, c, c1+"dns: {autoscaling: {enabled: true}}", "upgrade", release, chart, "--values", "-")
			if got := kubectl(t, c, "get", "deployment", "multicluster-dns", "--namespace="+system, "-o", "jsonpath={.spec.replicas}"); got != wanted {
				t.Errorf("after an upgrade there are %s replicas; want %s", got, wanted)
			}
		}
	}
}
