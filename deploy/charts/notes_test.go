package charts

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// notes are what Helm prints after an installation.
func notes(t *testing.T, namespace, values string) string {
	t.Helper()
	text, err := helm(t, "", values, "install", release, chart, "--dry-run=client", "--output", "json", "--namespace", namespace, "--values", "-")
	if err != nil {
		t.Fatal(err)
	}
	var printed struct{ Info struct{ Notes string } }
	if err := json.Unmarshal([]byte(text), &printed); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return printed.Info.Notes
}

// TestNotesListWhatToCheck: the commands are those of the chosen values, and of no others.
func TestNotesListWhatToCheck(t *testing.T) {
	lines := map[string]string{
		"an image":         "The nodes can pull these images. Nobody publishes those in registry.invalid: build and push your own with `make push` (deploy/README.md).\n  registry.invalid/clusterset-dns/multicluster-controller:latest\n",
		"build CoreDNS":    "CoreDNS with the plugin (`make push`)",
		"another image":    "The nodes can pull these images.\n  registry.example.org/coredns:v1\n",
		"controller":       "  kubectl -n multicluster-system rollout status deployment/multicluster-controller\n",
		"peers":            "  kubectl -n multicluster-system get leases -l clusterset-dns.io/peer",
		"join":             "`kubectl multicluster join A B`",
		"other namespace":  "`kubectl multicluster` works with the namespace multicluster-system only",
		"its account":      "name the account system:serviceaccount:default:multicluster-controller in both of its files",
		"others' peer":     "  kubectl -n multicluster-system get secret c3 -L clusterset-dns.io/peer",
		"clusterproperty":  "  kubectl get clusterproperties cluster.clusterset.k8s.io",
		"crds":             "  kubectl get crd serviceimports.multicluster.x-k8s.io serviceexports.multicluster.x-k8s.io",
		"server":           "    clusterset.local:53 {\n        errors\n        cache 5\n        forward . <that address>\n    }\n",
		"server, address":  "        forward . 10.0.0.11\n",
		"pin the address":  "unless you set dns.clusterIP to this one now",
		"leave server":     "Before you change dns.mode or uninstall the release, remove this block.",
		"two zones":        "    a.example:53 b.example:53 {\n",
		"alias forwarding": "corefile-examples/alias-forwarding.Corefile",
		"line":             "\n    multicluster clusterset.local\n",
		"block":            "\n    multicluster clusterset.local {\n        alias cluster.local\n    }\n",
		"stock":            "corefile-examples/stock.Corefile.",
		"stock-intree":     "\n    kubernetes cluster.local clusterset.local in-addr.arpa ip6.arpa {\n        multicluster clusterset.local\n    }\n",
		"stock, domain":    "\n    kubernetes k8s.example clusterset.local in-addr.arpa ip6.arpa {\n",
		"alias":            "corefile-examples/alias.Corefile;",
		"autopath":         "\n    autopath @multicluster\n",
		"patch":            "  kubectl -n kube-system patch deployment coredns -p '{",
		"its names":        "`coredns` is kubeadm's name for the Deployment",
		"replace":          "This release runs the cluster's DNS at 10.0.0.10",
		"none":             "does not run a DNS server",
		"monitors":         "The release contains ServiceMonitors. Your Prometheus must select their labels and namespaces:\n  kubectl get servicemonitors -A",
		"pod monitors":     "The release contains PodMonitors. Your Prometheus must select their labels and namespaces:\n  kubectl get podmonitors -A",
		"alerts":           "  kubectl -n multicluster-system get prometheusrule multicluster --show-labels",
		"dashboard":        "  kubectl -n multicluster-system get configmap multicluster-dashboard --show-labels",
		"policies":         "on the ports 443, 6443.",
		"try":              "  kubectl -n multicluster-system exec deployment/multicluster-client -- getent ahosts foo.default.svc",
		"a test":           "To test that pods resolve names of clusterset.local, and that all peers are connected:\n  helm test multicluster -n multicluster-system --logs\n",
		"a test of peers":  "To test that all peers are connected:\n  helm test",
		"get a client pod": "--reset-then-reuse-values --set clientPod.enabled=true",
	}
	for name, test := range map[string]struct {
		namespace, values string
		want              []string
	}{
		"the defaults":   {system, c1, []string{"a test", "an image", "controller", "peers", "join", "server", "pin the address", "leave server", "get a client pod"}},
		"peers":          {system, c1 + "peers: [{name: c2, kubeconfig: x}, {name: c3, existingSecret: true}]", []string{"a test", "an image", "controller", "peers", "others' peer", "server", "pin the address", "leave server", "get a client pod"}},
		"elsewhere":      {"default", "{controller: {enabled: true}, cluster: {id: c1}, dns: {mode: none}}", []string{"a test of peers", "an image", "join", "other namespace", "its account", "none"}},
		"a property":     {system, "{cluster: {useClusterProperty: true}, dns: {mode: none}, crds: {install: false}}", []string{"a test of peers", "an image", "controller", "peers", "join", "clusterproperty", "crds", "none"}},
		"server":         {system, c1 + "dns: {clusterIP: 10.0.0.11, plugin: {alias: [cluster.local]}}\nclientPod: {enabled: true}", []string{"a test", "an image", "controller", "peers", "join", "server, address", "leave server", "alias forwarding", "try"}},
		"two zones":      {system, c1 + "dns: {plugin: {zones: [a.example, b.example]}}", []string{"an image", "controller", "peers", "join", "two zones", "pin the address", "leave server", "get a client pod"}},
		"cluster":        {system, c1 + "dns: {mode: cluster}", []string{"a test", "an image", "controller", "peers", "join", "line", "build CoreDNS", "stock", "patch", "its names", "get a client pod"}},
		"cluster, ours":  {system, "{controller: {enabled: false}, dns: {mode: cluster, image: {repository: registry.example.org/coredns}}}", []string{"line", "stock", "patch", "its names", "get a client pod"}},
		"cluster, alias": {system, c1 + "dns: {mode: cluster, autopath: true, plugin: {alias: [cluster.local]}}", []string{"a test", "an image", "controller", "peers", "join", "block", "build CoreDNS", "alias", "autopath", "patch", "its names", "get a client pod"}},
		"stock":          {system, c1 + "dns: {mode: stock}", []string{"a test", "an image", "controller", "peers", "join", "stock-intree", "its names", "get a client pod"}},
		"stock, domain":  {system, c1 + "dns: {mode: stock, clusterDomain: k8s.example}", []string{"a test", "an image", "controller", "peers", "join", "stock, domain", "its names", "get a client pod"}},
		"monitoring":     {system, c1 + "dns: {mode: none}\npodMonitor: {enabled: true}\nprometheusRule: {enabled: true}\ndashboard: {enabled: true}", []string{"a test of peers", "an image", "controller", "peers", "join", "none", "pod monitors", "alerts", "dashboard"}},
		"no pods":        {system, "{controller: {enabled: false}, dns: {mode: none}, serviceMonitor: {enabled: true}}", []string{"none"}},
		"replace":        {system, replace + "networkPolicy: {enabled: true}\nserviceMonitor: {enabled: true}", []string{"a test", "an image", "controller", "peers", "join", "replace", "monitors", "policies", "get a client pod"}},
		"no controller":  {system, "{controller: {enabled: false}, dns: {mode: server, image: {repository: registry.example.org/coredns, tag: v1}}}", []string{"another image", "server", "pin the address", "leave server", "get a client pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := notes(t, test.namespace, test.values)
			for about, line := range lines {
				if got, want := strings.Contains(text, line), slices.Contains(test.want, about); got != want {
					t.Errorf("«%s» is there: %t; want %t", about, got, want)
				}
			}
			if t.Failed() || strings.Contains(text, "\n\n\n") || strings.Contains(text, "<no value>") {
				t.Errorf("the notes:\n%s", text)
			}
		})
	}
}

// helmLine is one that the documents show, by itself.
var helmLine = regexp.MustCompile(`(?m)^ {4,}helm (.*)$`)

// imageTag is what a line with Helm says of an image.
var imageTag = regexp.MustCompile(`image\.tag=(\S+)`)

// types runs each line with Helm that a document shows, in their order. Where one names tags, the pods are of these then.
func types(t *testing.T, c *kube.Cluster, name string, atLeast int) {
	t.Helper()
	lines := helmLine.FindAllStringSubmatch(document(t, name), -1)
	tagged := false
	for _, line := range lines {
		if _, err := helm(t, c.Kubeconfig, "", strings.Fields(line[1])...); err != nil {
			t.Fatal(err)
		}
		tag := imageTag.FindStringSubmatch(line[1])
		if tag == nil {
			continue
		}
		tagged = true
		images := strings.Fields(kubectl(t, c, "get", "deployments", "--namespace="+system, "-o", "jsonpath={.items[*].spec.template.spec.containers[*].image}"))
		if len(images) != 2 || slices.ContainsFunc(images, func(image string) bool { return !strings.HasSuffix(image, ":"+tag[1]) }) {
			t.Errorf("after helm %s\nthe images are %v", line[1], images)
		}
	}
	if len(lines) < atLeast || !tagged {
		t.Errorf("%s has %d lines with Helm; one names images' tags: %t", name, len(lines), tagged)
	}
}

// TestDocumentsLinesWork types those of README.md, and those of upgrade.md after README.md's first. TestClustersDNSIsHandedOn types those of
// uninstall.md.
func TestDocumentsLinesWork(t *testing.T) {
	t.Run("README.md", func(t *testing.T) {
		c := kube.New(t, kube.Options{})
		types(t, c, "deploy/README.md", 4)
		// A line has made it, and none after that has deleted it.
		kubectl(t, c, "get", "service", "kube-dns", "--namespace=kube-system")
	})
	t.Run("upgrade.md", func(t *testing.T) {
		c := kube.New(t, kube.Options{})
		if _, err := helm(t, c.Kubeconfig, "", documented(t, "deploy/README.md", "install multicluster")...); err != nil {
			t.Fatal(err)
		}
		types(t, c, "docs/operations/upgrade.md", 2)
	})
}

// TestNotesForAStockCoreDNS: the notes know the version of the cluster's own CoreDNS, and its account can read imports.
func TestNotesForAStockCoreDNS(t *testing.T) {
	c := kube.New(t, kube.Options{})
	const values = c1 + "dns: {mode: stock}"
	said := func() string {
		t.Helper()
		text := onCluster(t, c, values, "upgrade", "--install", release, chart, "--create-namespace", "--values", "-", "--output", "json")
		var printed struct{ Info struct{ Notes string } }
		if err := json.Unmarshal([]byte(text), &printed); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		return printed.Info.Notes
	}
	if text := said(); !strings.Contains(text, "version is not known here") {
		t.Errorf("without a CoreDNS, the notes are\n%s", text)
	}
	if err := c.Apply(t.Context(), "", kubeadms()); err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]string{
		"registry.k8s.io/coredns/coredns:v1.12.2":                        "CoreDNS 1.12.2 can answer",
		"registry.example.org:5000/eks/coredns:v1.13.1-eksbuild.2":       "CoreDNS 1.13.1 can answer",
		"registry.k8s.io/coredns/coredns:v1.12.1":                        "CoreDNS 1.12.1 cannot answer",
		"registry.example.org/coredns@sha256:" + strings.Repeat("1", 64): "version is not known here",
	} {
		kubectl(t, c, "set", "image", "deployment/coredns", "coredns="+image, "-n", "kube-system")
		if text := said(); !strings.Contains(text, want) {
			t.Errorf("with %s, the notes are\n%s\nwant %q", image, text, want)
		}
	}
	if got := kubectl(t, c, words(t, said(), "auth can-i list serviceimports")...); !strings.Contains(got, "yes") {
		t.Error(got)
	}
}

// TestNotesForTheClustersCoreDNS: the commands in the notes work on a CoreDNS as kubeadm installs
// it.
func TestNotesForTheClustersCoreDNS(t *testing.T) {
	c := kube.New(t, kube.Options{})
	if err := c.Apply(t.Context(), "", kubeadms()); err != nil {
		t.Fatal(err)
	}
	const values = c1 + "dns: {mode: cluster, image: {repository: example.org/coredns, tag: v1}}"
	onCluster(t, c, values, "install", release, chart, "--create-namespace", "--values", "-")
	said := notes(t, system, values)
	for command, want := range map[string]string{"auth can-i list serviceimports": "yes", "patch deployment coredns": "patched"} {
		if got := kubectl(t, c, words(t, said, command)...); !strings.Contains(got, want) {
			t.Errorf("%s: %s", command, got)
		}
	}
	got := kubectl(t, c, "get", "deployment", "coredns", "-n", "kube-system", "-o", "jsonpath={..image} {..sysctls[*].value} {..capabilities.add}")
	if want := `example.org/coredns:v1 53 ["NET_BIND_SERVICE"]`; got != want {
		t.Errorf("the Deployment has %q; want %q", got, want)
	}
	kubectl(t, c, words(t, document(t, "docs/operations/upgrade.md"), "patch deployment coredns")...)
	got = kubectl(t, c, "get", "deployment", "coredns", "-n", "kube-system", "-o", "jsonpath={..terminationGracePeriodSeconds} {..preStop.sleep.seconds} "+
		"{..readinessProbe.periodSeconds} {..readinessProbe.failureThreshold} {..readinessProbe.timeoutSeconds} {..readinessProbe.httpGet.path}")
	if want := "60 30 1 2 5 /ready"; got != want {
		t.Errorf("by upgrade.md the Deployment has %q; want %q, as the chart's", got, want)
	}
}

// words are those of the line that runs a command of kubectl's, as a shell would give them to it; the last may be quoted.
func words(t *testing.T, text, command string) []string {
	t.Helper()
	for line := range strings.Lines(text) {
		if line, isIt := strings.CutPrefix(strings.TrimSpace(line), "kubectl "); isIt && strings.Contains(line, command) {
			before, quoted, isQuoted := strings.Cut(line, " '")
			all := strings.Fields(before)
			if isQuoted {
				all = append(all, strings.TrimSuffix(quoted, "'"))
			}
			return all
		}
	}
	t.Fatalf("no line runs %q", command)
	return nil
}
