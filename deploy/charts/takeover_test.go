package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// kubeadms is CoreDNS as kubeadm installs it.
func kubeadms() string {
	return binaries.KubeadmCoreDNS("10.0.0.10", "registry.k8s.io/coredns/coredns:v1.14.2", ".:53 {\n    whoami\n}\n")
}

// document is a text of the folder deploy.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(binaries.Root(), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documented is the line with Helm of a document that has a phrase in it.
func documented(t *testing.T, name, phrase string) []string {
	t.Helper()
	for _, line := range helmLine.FindAllStringSubmatch(document(t, name), -1) {
		if strings.Contains(line[1], phrase) {
			return strings.Fields(line[1])
		}
	}
	t.Fatalf("%s has no line with %q", name, phrase)
	return nil
}

// TestReleaseTakesOverTheBases: by the line that upgrade.md shows. Then all of it is the release's.
func TestReleaseTakesOverTheBases(t *testing.T) {
	c := kube.New(t, kube.Options{})
	for _, base := range []string{"crd", "controller", "peer", "plugin/cluster-coredns"} {
		kubectl(t, c, "apply", "-k", "deploy/"+base)
	}
	const mode = "--set dns.mode=cluster"
	if !strings.Contains(document(t, "docs/operations/upgrade.md"), "add `"+mode+"` to that line") {
		t.Error("upgrade.md does not describe how to keep plugin/cluster-coredns")
	}
	line := append(documented(t, "docs/operations/upgrade.md", "--take-ownership"), strings.Fields(mode)...)
	if _, err := helm(t, c.Kubeconfig, "", line...); err != nil {
		t.Fatal(err)
	}
	got := kubectl(t, c, "get", "deployments,roles,clusterroles", "-A", "-l", "app.kubernetes.io/instance="+release, "-o", "jsonpath={.items[*].metadata.name}")
	const want = "multicluster-controller multicluster-controller multicluster-peer multicluster-controller multicluster-dns multicluster-peer"
	if got != want {
		t.Errorf("the release has %q; want %q", got, want)
	}
	if got := kubectl(t, c, "get", "deployment", "multicluster-controller", "-n", system, "-o", "jsonpath={..args}"); !strings.Contains(got, "--cluster-id=member1") {
		t.Errorf("the controller runs with %s", got)
	}
}

// TestReleaseTakesOverTheClustersCoreDNS: its pods are ours then, in one Deployment that the API server takes, at the same address.
func TestReleaseTakesOverTheClustersCoreDNS(t *testing.T) {
	c := kube.New(t, kube.Options{})
	path := filepath.Join(t.TempDir(), "kubeadm.yaml")
	if err := os.WriteFile(path, []byte(kubeadms()), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, "apply", "-f", path)
	onCluster(t, c, c1, "install", release, chart, "--create-namespace", "--values", "-")
	line := append(documented(t, "deploy/README.md", "dns.mode=replace"), "--take-ownership", "--force-conflicts")
	if _, err := helm(t, c.Kubeconfig, "", line...); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{
		"configmap/coredns {.data.Corefile}":                                                         corefile(t, replace+"  autopath: true"),
		"service/kube-dns {.spec.clusterIP} {.spec.ports[*].targetPort}":                             "10.0.0.10 dns dns-tcp metrics",
		"deployment/coredns {..image}":                                                               "registry.invalid/clusterset-dns/coredns:latest",
		"deployment/coredns {..containers[0].volumeMounts[*].name}":                                  "corefile",
		"deployment/coredns {..containers[0].ports[*].name}":                                         "dns dns-tcp metrics health ready",
		"deployment/coredns {..livenessProbe.httpGet.port} {..readinessProbe.httpGet.port}":          "health ready",
		"deployment/coredns {..capabilities.add} {..runAsUser} {.spec.selector.matchLabels.k8s-app}": `["NET_BIND_SERVICE"] 65532 kube-dns`,
	} {
		object, fields, _ := strings.Cut(what, " ")
		if got := kubectl(t, c, "get", "-n", "kube-system", object, "-o", "jsonpath="+fields); got != want {
			t.Errorf("%s: %q; want %q", what, got, want)
		}
	}
}

// TestForwardingIsRemovedFirst: no upgrade deletes the second CoreDNS while the cluster's own forwards to it.
func TestForwardingIsRemovedFirst(t *testing.T) {
	c := shared.Cluster(t)
	defer onCluster(t, c, "", "uninstall", release)
	defer kubectl(t, c, "delete", "configmap", "coredns", "--namespace=kube-system")
	onCluster(t, c, c1+"dns: {clusterIP: 10.0.0.11}", "install", release, chart, "--create-namespace", "--values", "-")
	for server, forwards := range map[string]bool{"10.0.0.11": true, "10.0.0.11:53": true, "10.0.0.110": false} {
		if err := c.Apply(t.Context(), "kube-system", "{apiVersion: v1, kind: ConfigMap, metadata: {name: coredns}, data: {Corefile: 'clusterset.local:53 { forward . "+server+" }'}}"); err != nil {
			t.Fatal(err)
		}
		for mode, deleted := range map[string]bool{"stock": true, "cluster": true, "none": true, "server": false} {
			_, err := helm(t, c.Kubeconfig, "", "upgrade", release, chart, "--namespace", system, "--dry-run=server", "--reset-then-reuse-values", "--set", "dns.mode="+mode)
			if refused := err != nil && strings.Contains(err.Error(), "contains its address 10.0.0.11: remove the server block"); refused != (forwards && deleted) || !refused && err != nil {
				t.Errorf("from server to %s, with a forwarding to %s: %v; want it refused: %t", mode, server, err, forwards && deleted)
			}
		}
	}
}

// TestClustersDNSIsHandedOn: no upgrade deletes the cluster's DNS by the way. By the lines that uninstall.md shows it outlives the mode, and
// then the release.
func TestClustersDNSIsHandedOn(t *testing.T) {
	c := kube.New(t, kube.Options{})
	onCluster(t, c, replace, "install", release, chart, "--create-namespace", "--values", "-")
	inUse := func() string {
		t.Helper()
		const uids = "jsonpath={.items[*].metadata.uid}"
		return kubectl(t, c, "get", "-n", "kube-system", "service/kube-dns", "deployment/coredns", "configmap/coredns", "serviceaccount/coredns", "-o", uids) +
			kubectl(t, c, "get", "clusterrole/multicluster-dns", "clusterrole/multicluster-dns:kubernetes", "clusterrolebinding/multicluster-dns:coredns",
				"clusterrolebinding/multicluster-dns:kubernetes", "-o", uids)
	}
	before := inUse()
	for _, mode := range []string{"server", "cluster", "none"} {
		_, err := helm(t, c.Kubeconfig, "", "upgrade", release, chart, "--namespace", system, "--reset-then-reuse-values", "--set", "dns.mode="+mode)
		if err == nil || !strings.Contains(err.Error(), "--set dns.leaveReplace=true") {
			t.Errorf("to the mode %s: %v; want it refused", mode, err)
		}
	}
	text := document(t, "docs/operations/uninstall.md")
	for _, marks := range []string{"annotate service/kube-dns ", "annotate clusterrole/"} {
		kubectl(t, c, words(t, text, marks)...)
	}
	for _, phrase := range []string{"--set dns.mode=none", "uninstall multicluster"} {
		if _, err := helm(t, c.Kubeconfig, "", documented(t, "docs/operations/uninstall.md", phrase)...); err != nil {
			t.Fatal(err)
		}
		if after := inUse(); after != before {
			t.Errorf("after the line with %q there is %s; want %s", phrase, after, before)
		}
	}
}
