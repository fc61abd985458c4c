package charts

import (
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/controlplane"
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
		onCluster(t, c, "controller: {args: null, extraArgs: [--kubeconfig=]}", "upgrade", release, chart, "--reset-then-reuse-values", "--values", "-")
		after := uids(t, c)
		for name, uid := range before {
			if after[name] != uid {
				t.Errorf("in mode %s, %s was %s and is %q", mode, name, uid, after[name])
			}
		}
		onCluster(t, c, "", "uninstall", release)
	}
}

// uids are those of the objects of the release, by kind and name.
func uids(t *testing.T, c *controlplane.Cluster) map[string]string {
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
