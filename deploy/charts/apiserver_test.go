package charts

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// everything are values for each mode of dns with all on that an API server of itself knows.
var everything = map[string]string{
	"server":  allOn + "dns: {mode: server, " + moreOfDNS + "service: {type: LoadBalancer, annotations: {a: b}, loadBalancerClass: a.example/b, loadBalancerSourceRanges: [10.0.0.0/8], externalTrafficPolicy: Local, ipFamilyPolicy: PreferDualStack}, autoscaling: {enabled: true}, clusterIP: 10.0.0.11, podDisruptionBudget: {enabled: true}, plugin: {alias: [cluster.local]}}\n",
	"stock":   allOn + "dns: {mode: stock, podDisruptionBudget: {enabled: true}}\n",
	"cluster": allOn + "dns: {mode: cluster, podDisruptionBudget: {enabled: true}}\n",
	"replace": allOn + "dns: {mode: replace, " + moreOfDNS + "autoscaling: {enabled: true}, clusterIP: 10.0.0.10, podDisruptionBudget: {enabled: true}, autopath: true, upstreams: ['tls://192.0.2.53']}\n",
	"none":    allOn + "dns: {mode: none, podDisruptionBudget: {enabled: true}}\n",
}

// moreOfDNS are values of a CoreDNS that the chart runs.
const moreOfDNS = "extraArgs: [-quiet], extraEnv: [{name: A, value: b}], extraVolumes: [{name: a, emptyDir: {}}], extraVolumeMounts: [{name: a, mountPath: /a}], " +
	"podLabels: {a: b}, topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}], "

const allOn = `
cluster: {id: c1, peerTimeout: 1m, maxEndpointsPerSlice: 50, logLevel: DEBUG}
peers: [{name: c2, kubeconfig: "apiVersion: v1"}, {name: c3, existingSecret: true}]
peerAccount: {readers: [{id: c2}, {id: "3", expiring: true}]}
controller:
  clusterProfiles: default
  extraArgs: [--kubeconfig=]
  nodeSelector: {kubernetes.io/os: linux}
  tolerations: [{key: a, operator: Exists}]
  affinity: {nodeAffinity: {}}
  podAnnotations: {a: b}
  podLabels: {a: b}
  extraEnv: [{name: HTTPS_PROXY, value: "http://192.0.2.1:3128"}]
  extraVolumes: [{name: a, emptyDir: {}}]
  extraVolumeMounts: [{name: a, mountPath: /a}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
  podDisruptionBudget: {enabled: true}
dashboard: {enabled: true}
test: {name: foo.default.svc.clusterset.local}
extraObjects: ["{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Release.Name }}', labels: ` + chartsLabels + `}}"]
imagePullSecrets: [{name: registry}]
networkPolicy: {enabled: true, apiServers: [192.0.2.1/32, "2001:db8::/64"], metricsFrom: [{namespaceSelector: {}}]}
clientPod: {enabled: true}
`

func kubectl(t *testing.T, c *kube.Cluster, args ...string) string {
	t.Helper()
	out, err := binaries.Kubectl(t.Context(), c, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// onCluster runs Helm as the cluster's administrator.
func onCluster(t *testing.T, c *kube.Cluster, values string, args ...string) string {
	t.Helper()
	out, err := helm(t, c.Kubeconfig, values, append(args, "--namespace", system)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestReleaseThroughAllModes installs, changes modes, and ends: the API server takes each object, with no field that it does not know,
// and nothing stays of a mode that is left. It admits the pods, also where the namespaces enforce the Pod Security Standard "restricted",
// and critical priority classes are limited as on GKE.
func TestReleaseThroughAllModes(t *testing.T) {
	c := kube.New(t, kube.Options{APIServerFlags: kube.LimitCriticalPods(t)})
	onCluster(t, c, c1+"dns: {mode: none}", "install", release, chart, "--create-namespace", "--values", "-")
	permitCriticalPods(t, c, "kube-system")
	for _, account := range []string{"default", "multicluster-test"} { // of a controller manager, and of `helm test`
		if _, _, err := c.ServiceAccount(t.Context(), system, account); err != nil {
			t.Fatal(err)
		}
	}
	kubectl(t, c, "label", "namespace", system, "kube-system", "pod-security.kubernetes.io/enforce=restricted")
	for _, mode := range []string{"server", "stock", "cluster", "replace", "none", "server"} {
		onCluster(t, c, everything[mode], "upgrade", release, chart, "--values", "-", "--set", "dns.leaveReplace=true")
		manifest := onCluster(t, c, "", "get", "manifest", release)
		hooks := onCluster(t, c, "", "get", "hooks", release)
		strict(t, c, manifest+hooks)
		for _, object := range append(decode(t, manifest), decode(t, hooks)...) {
			if pod := podOf(t, object); pod != nil {
				isAdmitted(t, c, pod)
			}
		}
		services := kubectl(t, c, "get", "services", "-A", "-l", "app.kubernetes.io/part-of=multicluster", "-o", "jsonpath={.items[*].metadata.name}")
		if want := map[string]string{"server": "multicluster-dns", "replace": "kube-dns"}[mode]; services != want {
			t.Errorf("in mode %s there are the Services %q; want %q", mode, services, want)
		}
	}
}

// strict wants the API server to take a manifest in which it knows each field.
func strict(t *testing.T, c *kube.Cluster, manifest string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, "apply", "--dry-run=server", "--validate=strict", "-f", path)
}

// permitCriticalPods creates the quota that GKE has in kube-system, with the status that kube-controller-manager gives it.
func permitCriticalPods(t *testing.T, c *kube.Cluster, namespace string) {
	t.Helper()
	kubectl(t, c, "create", "quota", "critical-pods", "--namespace="+namespace, "--hard=pods=1G", "--scopes=PriorityClass")
	kubectl(t, c, "patch", "quota", "critical-pods", "--namespace="+namespace, "--subresource=status", "--type=merge",
		`--patch={"status": {"hard": {"pods": "1G"}, "used": {"pods": "0"}}}`)
}

// podOf is the pod of an object: of a Deployment, or itself. Others have none.
func podOf(t *testing.T, object *unstructured.Unstructured) *corev1.Pod {
	t.Helper()
	var deployment appsv1.Deployment
	var pod corev1.Pod
	var into any
	switch object.GetKind() {
	case "Deployment":
		into = &deployment
	case "Pod":
		into = &pod
	default:
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		t.Fatal(err)
	}
	if object.GetKind() == "Deployment" {
		pod = corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
		pod.Name, pod.Namespace = deployment.Name, deployment.Namespace
	}
	return &pod
}

// isAdmitted wants the API server to admit a pod, and it not to write to its root. The API server refuses pods of less security, and those
// with a critical priority class outside of kube-system.
func isAdmitted(t *testing.T, c *kube.Cluster, pod *corev1.Pod) {
	t.Helper()
	admit := func(change func(*corev1.Pod)) error {
		changed := pod.DeepCopy()
		change(changed)
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		_, err := kubernetes.NewForConfigOrDie(c.Config).CoreV1().Pods(pod.Namespace).Create(t.Context(), changed, dryRun)
		return err
	}
	if err := admit(func(*corev1.Pod) {}); err != nil {
		t.Errorf("%s: %v", pod.Name, err)
	}
	security := pod.Spec.Containers[0].SecurityContext
	if security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem {
		t.Errorf("%s: the root file system can be written", pod.Name)
	}
	err := admit(func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = new(true) })
	if err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted:latest"`) {
		t.Errorf("a privileged %s: %v; want it refused", pod.Name, err)
	}
	err = admit(func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" })
	if refused := err != nil && strings.Contains(err.Error(), "insufficient quota"); refused == (pod.Namespace == "kube-system") {
		t.Errorf("a critical %s in %s: %v", pod.Name, pod.Namespace, err)
	}
}

// TestCRDsAreUpgradedAndStay: an upgrade of the chart upgrades them, and they outlive the release, with their objects. So do the rights of the
// cluster's own CoreDNS. Another release takes them over.
func TestCRDsAreUpgradedAndStay(t *testing.T) {
	c := kube.New(t, kube.Options{})
	older := filepath.Join(t.TempDir(), "multicluster")
	if err := os.CopyFS(older, os.DirFS("multicluster")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(older, "files", "crd", "serviceimports.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const version = "multicluster.x-k8s.io/release-version"
	other := strings.Replace(string(text), version+`: "v0.5`, version+`: "v0.1`, 1)
	if other == string(text) {
		t.Fatal("the CRD has no version to change")
	}
	if err := os.WriteFile(path, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		t.Helper()
		return kubectl(t, c, "get", "crd", "serviceimports.multicluster.x-k8s.io", "-o", `jsonpath={.metadata.labels.multicluster\.x-k8s\.io/release-version}`)
	}
	onCluster(t, c, c1, "install", release, older, "--create-namespace", "--values", "-")
	if got := shown(); !strings.HasPrefix(got, "v0.1") {
		t.Fatalf("the CRD is of %s", got)
	}
	kubectl(t, c, "wait", "--for=condition=Established", "--all", "customresourcedefinitions")
	if err := c.Apply(t.Context(), "default", "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: foo}, spec: {type: Headless, ports: []}}"); err != nil {
		t.Fatal(err)
	}
	// An administrator applies this base over what the release has.
	kubectl(t, c, "apply", "-k", "deploy/peer")
	const stock = c1 + "dns: {mode: stock}"
	onCluster(t, c, stock, "upgrade", release, chart, "--values", "-")
	if got := shown(); !strings.HasPrefix(got, "v0.5") {
		t.Errorf("after the upgrade the CRD is of %s", got)
	}

	onCluster(t, c, "", "uninstall", release)
	if got := kubectl(t, c, "get", "serviceimports", "-A", "-o", "name"); got != "serviceimport.multicluster.x-k8s.io/foo\n" {
		t.Errorf("after the release there are the imports %q", got)
	}
	left := kubectl(t, c, "get", "deployments,services,serviceaccounts,configmaps,roles,rolebindings,clusterroles,clusterrolebindings", "-A",
		"-l", "app.kubernetes.io/part-of=multicluster", "-o", "jsonpath={range .items[*]}{.kind} {.metadata.name}\n{end}")
	if want := "ClusterRole multicluster-dns\nClusterRoleBinding multicluster-dns:coredns\n"; left != want {
		t.Errorf("the release left\n%s; want\n%s", left, want)
	}
	onCluster(t, c, stock, "install", release, chart, "--values", "-")
}

// TestCoreDNSTakesTheCorefile runs our CoreDNS with what the chart renders: with the Corefile, options and all, as the account that
// the chart makes, with its rights. It answers over both families, and reports itself ready.
func TestCoreDNSTakesTheCorefile(t *testing.T) {
	for name, test := range map[string]struct{ values, account, port string }{
		"server": {c1 + "dns: {upstreams: [127.0.0.1:9], plugin: {alias: [cluster.local], ttl: 7, negttl: 8, udpSize: 4096, namespaces: [default, shop], labels: 'env in (a, b), c=d', " +
			"startupTimeout: 30s, fallthrough: {enabled: true, zones: [x.clusterset.local]}}}", system + ":multicluster-dns", "1053"},
		"server, by default": {c1, system + ":multicluster-dns", "1053"},
		"replace": {replace + "  autopath: true\n  upstreams: [127.0.0.1:9]\n  clusterDomain: k8s.example\n" +
			"  plugin: {alias: [k8s.example], noEndpoints: true, fallthrough: {enabled: true}}\n", "kube-system:coredns", "53"},
	} {
		t.Run(name, func(t *testing.T) {
			kube.InNetNS(t, func(t *testing.T) { startsWith(t, test.values, test.account, test.port) })
		})
	}
}

func startsWith(t *testing.T, values, account, port string) {
	c := kube.New(t, kube.Options{})
	onCluster(t, c, values, "install", release, chart, "--create-namespace", "--values", "-")
	kubectl(t, c, "wait", "--for=condition=Established", "--all", "customresourcedefinitions")
	namespace, name, _ := strings.Cut(account, ":")
	_, kubeconfig, err := c.ServiceAccount(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	coredns, err := binaries.Program("coredns")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "Corefile")
	if err := os.WriteFile(path, []byte(withKubeconfig(corefile(t, values), kubeconfig)), 0o600); err != nil {
		t.Fatal(err)
	}
	ready := func(ctx context.Context) error {
		_, err := binaries.Get(ctx, "http://127.0.0.1:8181/ready")
		return err
	}
	server, err := c.Beside(t.Context(), ready, coredns, "-conf", path, "-dns.port=1053")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	log, err := os.ReadFile(server.Log())
	if err != nil || strings.Contains(string(log), "orbidden") {
		t.Errorf("%v\n%s", err, log)
	}
	serves(t, ":8080/health", ":8181/ready", ":9153/metrics")
	for _, network := range []string{"udp6", "tcp6"} {
		kube.Eventually(t, "an answer over "+network, func() error { // CoreDNS says that it is ready a moment before it listens
			m, _, err := (&dns.Client{Net: network}).Exchange(new(dns.Msg).SetQuestion("dns-version.clusterset.local.", dns.TypeTXT), "[::1]:"+port)
			if err == nil && len(m.Answer) != 1 {
				err = fmt.Errorf("%v", m)
			}
			return err
		})
	}
	if port == "53" {
		testsRelease(t, c, server)
	}
}

// TestControllerServesBothFamilies runs the controller as the chart does: its account, its rights, its flags.
func TestControllerServesBothFamilies(t *testing.T) {
	kube.InNetNS(t, func(t *testing.T) {
		c := kube.New(t, kube.Options{})
		onCluster(t, c, c1+"dns: {mode: none}", "install", release, chart, "--create-namespace", "--values", "-")
		_, kubeconfig, err := c.ServiceAccount(t.Context(), system, "multicluster-controller")
		if err != nil {
			t.Fatal(err)
		}
		var flags []string
		if err := json.Unmarshal([]byte(kubectl(t, c, "get", "deployment", "multicluster-controller", "--namespace="+system, "-o", "jsonpath={..args}")), &flags); err != nil {
			t.Fatal(err)
		}
		program, err := binaries.Program("multicluster-controller")
		if err != nil {
			t.Fatal(err)
		}
		ready := func(ctx context.Context) error {
			_, err := binaries.Get(ctx, "http://[::1]:8081/readyz")
			return err
		}
		controller, err := c.Beside(t.Context(), ready, program, append(flags, "--kubeconfig="+kubeconfig, "--namespace="+system)...)
		if err != nil {
			t.Fatal(err)
		}
		defer controller.Stop()
		serves(t, ":8081/healthz", ":8080/metrics")
	})
}

// serves wants pages on the loopback addresses of both families: a pod's probes come over the family of its first address.
func serves(t *testing.T, pages ...string) {
	t.Helper()
	for _, page := range pages {
		for _, address := range []string{"127.0.0.1", "[::1]"} {
			if _, err := binaries.Get(t.Context(), "http://"+address+page); err != nil {
				t.Error(err)
			}
		}
	}
}

// withKubeconfig tells the plugins that read the API server who to be: outside of a pod they cannot know.
func withKubeconfig(corefile, kubeconfig string) string {
	var text strings.Builder
	for line := range strings.Lines(corefile) {
		line = strings.TrimSuffix(line, "\n")
		switch reads := strings.HasPrefix(line, "    multicluster") || strings.HasPrefix(line, "    kubernetes "); {
		case reads && strings.HasSuffix(line, "{"):
			line += "\n        kubeconfig " + kubeconfig
		case reads:
			line += " {\n        kubeconfig " + kubeconfig + "\n    }"
		}
		text.WriteString(line + "\n")
	}
	return text.String()
}
