package check_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/cli/check"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/test/kube"
)

func TestMain(m *testing.M) { world.Main(m) }

// secondIP is the ClusterIP of multicluster-dns in member1.
const secondIP = "10.0.0.200"

// programs are the objects of a healthy cluster that no controller or kubelet makes here.
const programs = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: multicluster-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: multicluster-dns, namespace: multicluster-system}
spec:
  replicas: 2
  selector: {matchLabels: {app.kubernetes.io/name: multicluster-dns}}
  template:
    metadata: {labels: {app.kubernetes.io/name: multicluster-dns}}
    spec: {containers: [{name: coredns, image: "registry.invalid/coredns:v0.1.0"}]}
---
apiVersion: v1
kind: Service
metadata: {name: multicluster-dns, namespace: multicluster-system}
spec: {clusterIP: 10.0.0.200, ports: [{port: 53, protocol: UDP}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  replicas: 2
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec: {containers: [{name: coredns, image: "registry.k8s.io/coredns/coredns:v1.14.1"}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-proxy, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: kube-proxy}}
  template:
    metadata: {labels: {k8s-app: kube-proxy}}
    spec: {containers: [{name: kube-proxy, image: "registry.k8s.io/kube-proxy:v1.37.1"}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: node-local-dns, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: node-local-dns}}
  template:
    metadata: {labels: {k8s-app: node-local-dns}}
    spec: {containers: [{name: node-cache, image: "registry.k8s.io/dns/k8s-dns-node-cache:1.26.4"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: node-local-dns, namespace: kube-system}
data:
  Corefile: |
    cluster.local:53 {
        errors
        bind 169.254.20.10 10.96.0.10
        forward . __PILLAR__CLUSTER__DNS__ {
            force_tcp
        }
    }
    clusterset.local:53 {
        errors
        bind 169.254.20.10 10.96.0.10
        forward . __PILLAR__CLUSTER__DNS__
    }
---
apiVersion: v1
kind: Node
metadata: {name: node}
spec: {podCIDRs: ["POD_NETWORK"], podCIDR: "POD_NETWORK"}
`

// stockCorefile is that of kubeadm.
const stockCorefile = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
`

const forwarding = "clusterset.local:53 {\n    errors\n    cache 5\n    forward . " + secondIP + "\n}\n"

// healthy makes two clusters in which nothing is wrong.
func healthy(t *testing.T) *world.World {
	t.Helper()
	w := world.New(t, "member1", "member2")
	for i, id := range []string{"member1", "member2"} {
		c := w.Clusters[id]
		own := strings.NewReplacer("POD_NETWORK", fmt.Sprintf("10.%d.0.0/24", i+1), secondIP, []string{secondIP, "10.0.0.100"}[i])
		apply(t, c, own.Replace(programs))
		setCorefile(t, c, "coredns", own.Replace(stockCorefile+forwarding))
		w.Announce(id, id)
		beat(t, c, time.Now())
		for namespace, name := range map[string]string{"multicluster-system": "multicluster-controller", "kube-system": "coredns"} {
			ready(t, c, namespace, name, 2)
		}
		ready(t, c, "multicluster-system", "multicluster-dns", 2)
		proxies(t, c, 1)
		peer(t, c, []string{"member2", "member1"}[i], "True", "Connected", "")
	}
	return w
}

func apply(t *testing.T, c *world.Cluster, text string) {
	t.Helper()
	if err := c.Apply(t.Context(), "", text); err != nil {
		t.Fatal(err)
	}
}

func setCorefile(t *testing.T, c *world.Cluster, name, text string) {
	t.Helper()
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": name, "namespace": "kube-system"},
		"data": map[string]string{"Corefile": text},
	})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, c, string(object))
}

func ready(t *testing.T, c *world.Cluster, namespace, name string, replicas int) {
	t.Helper()
	patch := fmt.Sprintf(`{"status": {"replicas": 2, "readyReplicas": %d, "availableReplicas": %[1]d}}`, replicas)
	if _, err := c.Kube.AppsV1().Deployments(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// proxies sets how many of one kube-proxy are ready.
func proxies(t *testing.T, c *world.Cluster, ready int) {
	t.Helper()
	patch := fmt.Sprintf(`{"status": {"desiredNumberScheduled": 1, "numberReady": %d}}`, ready)
	if _, err := c.Kube.AppsV1().DaemonSets("kube-system").Patch(t.Context(), "kube-proxy", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func beat(t *testing.T, c *world.Cluster, at time.Time) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec": {"renewTime": %q}}`, at.UTC().Format(metav1.RFC3339Micro))
	if _, err := c.Kube.CoordinationV1().Leases("multicluster-system").Patch(t.Context(), member.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// peer writes what the controller of a cluster writes about a peer. An expiry is an RFC 3339 time or "".
func peer(t *testing.T, c *world.Cluster, id, connected, reason, expiry string) {
	t.Helper()
	apply(t, c, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: %[1]s, namespace: multicluster-system, labels: {clusterset-dns.io/peer: ""}}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  name: %[1]s
  namespace: multicluster-system
  labels: {clusterset-dns.io/peer: "", clusterset-dns.io/connected: "%[2]s", clusterset-dns.io/reason: %[3]s}
  annotations: {clusterset-dns.io/message: "a message", clusterset-dns.io/token-expiry: "%[4]s"}
`, id, connected, reason, expiry))
}

// run runs the command and returns its report.
func run(t *testing.T, w *world.World, args ...string) check.Report {
	t.Helper()
	result := w.Run(append([]string{"check", "-o", "json"}, args...)...)
	var r check.Report
	if err := json.Unmarshal([]byte(result.Out), &r); err != nil {
		t.Fatalf("%v: %s%s", err, result.Out, result.Err)
	}
	if want := map[bool]int{false: 0, true: 1}[r.Failed()]; result.Status != want {
		t.Errorf("the exit status is %d, want %d", result.Status, want)
	}
	return r
}

// of returns the checks with a result.
func of(r check.Report, result check.Result) []check.Check {
	return slices.DeleteFunc(slices.Clone(r.Checks), func(c check.Check) bool { return c.Result != result })
}

func ids(all []check.Check) []string {
	var found []string
	for _, c := range all {
		found = append(found, c.ID)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// account adds a context for a service account with a role.
func account(ctx context.Context, t *testing.T, w *world.World, id, name, rules string) (undo func()) {
	t.Helper()
	c := w.Clusters[id]
	apply(t, c, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s}
rules: %[2]s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: accounts}]
`, name, rules))
	config, _, err := c.ServiceAccount(ctx, "accounts", name)
	if err != nil {
		t.Fatal(err)
	}
	before := w.Config.AuthInfos[id]
	w.Config.AuthInfos[id] = &api.AuthInfo{Token: config.BearerToken}
	w.WriteConfig()
	return func() {
		w.Config.AuthInfos[id] = before
		w.WriteConfig()
	}
}

// fillQuota does what kube-controller-manager does with a new ResourceQuota.
func fillQuota(t *testing.T, c *kube.Cluster) error {
	t.Helper()
	quotas := kubernetes.NewForConfigOrDie(c.Config).CoreV1().ResourceQuotas("multicluster-system")
	quota, err := quotas.Get(t.Context(), "critical-pods", metav1.GetOptions{})
	if err != nil {
		return err
	}
	quota.Status.Hard = quota.Spec.Hard
	quota.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	_, err = quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
	return err
}
