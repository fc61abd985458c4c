package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/ours"
)

// stockObjects are a cluster's own CoreDNS as kubeadm installs it. ADDRESS is where the cluster's pods look for DNS. The annotation starts
// its pods anew when the Corefile changes, as `kubectl rollout restart` would.
const stockObjects = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:coredns"}
rules:
  - {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:coredns"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects: [{kind: ServiceAccount, name: coredns, namespace: kube-system}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data: {Corefile: COREFILE}
---
apiVersion: v1
kind: Service
metadata:
  name: kube-dns
  namespace: kube-system
  labels: {k8s-app: kube-dns, kubernetes.io/cluster-service: "true", kubernetes.io/name: CoreDNS}
spec:
  clusterIP: ADDRESS
  selector: {k8s-app: kube-dns}
  ports:
    - {name: dns, port: 53, protocol: UDP, targetPort: 53}
    - {name: dns-tcp, port: 53, protocol: TCP, targetPort: 53}
    - {name: metrics, port: 9153, protocol: TCP, targetPort: 9153}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: coredns
  namespace: kube-system
  labels: {k8s-app: kube-dns}
spec:
  replicas: 2
  selector: {matchLabels: {k8s-app: kube-dns}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}
  template:
    metadata:
      labels: {k8s-app: kube-dns}
      annotations: {corefile: "HASH"}
    spec:
      serviceAccountName: coredns
      priorityClassName: system-cluster-critical
      dnsPolicy: Default
      nodeSelector: {kubernetes.io/os: linux}
      tolerations:
        - {key: CriticalAddonsOnly, operator: Exists}
        - {key: node-role.kubernetes.io/control-plane, effect: NoSchedule}
      containers:
        - name: coredns
          image: IMAGE
          imagePullPolicy: IfNotPresent
          args: [-conf, /etc/coredns/Corefile]
          ports:
            - {name: dns, containerPort: 53, protocol: UDP}
            - {name: dns-tcp, containerPort: 53, protocol: TCP}
            - {name: metrics, containerPort: 9153, protocol: TCP}
          livenessProbe:
            httpGet: {path: /health, port: 8080}
            initialDelaySeconds: 60
            timeoutSeconds: 5
            failureThreshold: 5
          readinessProbe: {httpGet: {path: /ready, port: 8181}}
          resources: {requests: {cpu: 100m, memory: 70Mi}, limits: {memory: 170Mi}}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {add: [NET_BIND_SERVICE], drop: [ALL]}
          volumeMounts: [{name: config-volume, mountPath: /etc/coredns, readOnly: true}]
      volumes: [{name: config-volume, configMap: {name: coredns, items: [{key: Corefile, path: Corefile}]}}]
`

// ourLine is the one line that stock.Corefile has more than what kubeadm installs.
const ourLine = "    multicluster clusterset.local\n"

// needStock skips the test where nobody has said which image is a CoreDNS without our plugin.
func needStock(t *testing.T) *set {
	t.Helper()
	s := open(t)
	if s.images["stock"] == "" {
		t.Skip("needs a stock CoreDNS in the place of the clusters' own: give an image that they have or can pull, " +
			"as E2E_IMAGES=stock=registry.k8s.io/coredns/coredns:v1.12.3")
	}
	return s
}

// corefileExample is a file of corefile-examples.
func corefileExample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(ours.Root(), "corefile-examples", name+".Corefile"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var comment = regexp.MustCompile(`(?m)^#.*\n`)

// stockCorefile is what kubeadm installs.
func stockCorefile(t *testing.T) string {
	t.Helper()
	text := comment.ReplaceAllString(corefileExample(t, "stock"), "")
	if strings.Count(text, ourLine) != 1 || strings.Count(text, "multicluster") != 1 {
		t.Fatalf("stock.Corefile has not just one line of ours, %q:\n%s", ourLine, text)
	}
	return strings.Replace(text, ourLine, "", 1)
}

// runStock gives each cluster a stock CoreDNS as its own, or another Corefile to the one that it has. It goes with the scene, and what the chart
// has in the clusters is for nobody else then.
func (s *scene) runStock(corefile func(context.Context, *cluster) (string, error)) {
	s.t.Helper()
	if s.dns = nil; !s.stock { // the next scene installs the chart anew
		s.stock = true
		s.undo = append(s.undo, func(ctx context.Context) error {
			return s.each(ctx, func(ctx context.Context, c *cluster) error {
				if err := c.removeStock(ctx); err != nil || os.Getenv("E2E_KILL") != "" {
					return err
				}
				return c.install(ctx, bySearch) // clusters of others are not left without names
			})
		})
	}
	if err := s.each(s.t.Context(), func(ctx context.Context, c *cluster) error {
		text, err := corefile(ctx, c)
		if err != nil {
			return err
		}
		return c.applyStock(ctx, text)
	}); err != nil {
		s.t.Fatal(err)
	}
}

func (c *cluster) applyStock(ctx context.Context, corefile string) error {
	address, err := c.dnsAddress(ctx)
	if err != nil {
		return err
	}
	objects := strings.NewReplacer("ADDRESS", address, "IMAGE", c.set.images["stock"], "COREFILE", fmt.Sprintf("%q", corefile),
		"HASH", fmt.Sprintf("%.6x", sha256.Sum256([]byte(corefile)))).Replace(stockObjects)
	if err := c.apply(ctx, "kube-system", objects); err != nil {
		return err
	}
	_, err = c.kubectl(ctx, "rollout", "status", "deployment/coredns", "--namespace=kube-system", "--timeout=3m")
	return err
}

func (c *cluster) removeStock(ctx context.Context) error {
	_, err := c.set.run(ctx, stockObjects, c.set.kubectl, "--context="+c.id, "delete", "--ignore-not-found", "-f", "-")
	return err
}

// addressLine is the command that an example gives for the address in it.
var addressLine = regexp.MustCompile(`(?m)^#   kubectl (.* --output jsonpath='\{\.spec\.clusterIP\}')$`)

// withAddress is an example with a cluster's own address in the place of the one that is in it, asked for as the example says. The chart has
// the second server in its own namespace, not in that of deploy/plugin/server.
func (c *cluster) withAddress(ctx context.Context, text, sample string) (string, error) {
	line := addressLine.FindStringSubmatch(text)
	if line == nil || strings.Count(text, sample) == 0 {
		return "", fmt.Errorf("the example does not say how to find the address that is %s in it:\n%s", sample, text)
	}
	args := strings.ReplaceAll(line[1], "--namespace multicluster-dns", "--namespace "+system)
	address, err := c.set.run(ctx, "", "bash", "-c", "kubectl --context "+c.id+" "+args)
	return strings.ReplaceAll(text, sample, address), err
}

// sampleAddress is that of the second server in the examples.
const sampleAddress = "10.96.0.11"

// stubZone is the stock Corefile and, unchanged but for the address, forwarding.Corefile.
func stubZone(t *testing.T) func(context.Context, *cluster) (string, error) {
	t.Helper()
	own, example := stockCorefile(t), corefileExample(t, "forwarding")
	return func(ctx context.Context, c *cluster) (string, error) {
		block, err := c.withAddress(ctx, example, sampleAddress)
		return own + block, err
	}
}

// isStock wants the pods that answer the cluster's names to be of the stock image, and its program to know nothing of us.
func (s *scene) isStock(c *cluster) {
	s.t.Helper()
	list, err := c.kubectl(s.t.Context(), "get", "pods", "--namespace=kube-system", "-l", "k8s-app=kube-dns", "-o", "jsonpath={.items[*].spec.containers[*].image}")
	if err != nil {
		s.t.Fatal(err)
	}
	found := strings.Fields(list)
	for _, image := range found {
		if image != s.images["stock"] {
			s.t.Errorf("kube-dns in %s has a pod of %s, want %s", c.id, image, s.images["stock"])
		}
	}
	plugins, err := c.kubectl(s.t.Context(), "exec", "deployment/coredns", "--namespace=kube-system", "--", "/coredns", "-plugins")
	if err != nil {
		s.t.Fatal(err)
	}
	if len(found) == 0 || strings.Contains(plugins, "multicluster") || !strings.Contains(plugins, "kubernetes") {
		s.t.Errorf("kube-dns in %s has %d pods, and these plugins: %s", c.id, len(found), plugins)
	}
}

// TestSecondCoreDNS: the cluster's own CoreDNS is a stock one, and has one server block more.
func TestSecondCoreDNS(t *testing.T) {
	needStock(t)
	s := newScene(t, bySecond, "a second CoreDNS beside a stock one that has a stub zone: remote, local, remote again")
	s.runStock(stubZone(t))
	client := s.client(s.clusters[1], "client", "clusterset.local")
	localWins(s, client)
	client.prints("getent hosts "+s.fqdn("foo"), s.fqdn("foo"))
	client.prints("getent hosts kubernetes.default", "kubernetes.default.svc.cluster.local")
	s.isStock(client.cluster)
}

// TestSecondCoreDNSAlias: names under cluster.local, where the second server has the imports.
func TestSecondCoreDNSAlias(t *testing.T) {
	needStock(t)
	s := newScene(t, bySecondAlias, "alias by a second CoreDNS: local endpoints unready, and ready again")
	example := corefileExample(t, "alias-forwarding")
	s.runStock(func(ctx context.Context, c *cluster) (string, error) {
		return c.withAddress(ctx, example, sampleAddress)
	})
	s.runsAsInTheExample()
	failsOver(s)
	s.isStock(s.clusters[1])
}

// runsAsInTheExample: the values of the chart have made the Corefile of the example.
func (s *scene) runsAsInTheExample() {
	s.t.Helper()
	got, err := s.clusters[1].kubectl(s.t.Context(), "get", "configmap", "multicluster-dns", "--namespace="+system, "-o", "jsonpath={.data.Corefile}")
	if err != nil {
		s.t.Fatal(err)
	}
	want := comment.ReplaceAllString(corefileExample(s.t, "alias-second-server"), "")
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		s.t.Errorf("the second server runs with\n%s\nwant that of alias-second-server.Corefile:\n%s", got, want)
	}
}
