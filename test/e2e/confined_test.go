package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func (s *scene) confined() {
	t := s.t
	c := s.clusters[0]
	s.kubectl(c, "label", "namespace", s.namespace, "pod-security.kubernetes.io/enforce=restricted")
	s.runServer(c)
	nodes := s.namespace + "-nodes"
	if _, err := c.kubectl(t.Context(), "create", "namespace", nodes); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := c.kubectl(context.WithoutCancel(t.Context()), "delete", "namespace", nodes, "--wait=false"); err != nil {
			t.Error(err)
		}
	})
	for _, p := range []program{
		{system, "multicluster-controller", "app.kubernetes.io/name=multicluster-controller", none},
		{"kube-system", "coredns", "k8s-app=kube-dns", netBindService},
		{s.namespace, "multicluster-dns", "app.kubernetes.io/name=multicluster-dns", none},
	} {
		t.Run(p.deployment, func(t *testing.T) {
			pod := s.onePod(t, c, p)
			checkStatus(t, s.proc(t, c, nodes, p.deployment, pod), p.capabilities)
			if p.deployment == "multicluster-controller" {
				checkMemory(t, c, pod)
			}
		})
	}
}

// program is one of ours, and the capabilities that it may have, as the kernel shows them.
type program struct{ namespace, deployment, labels, capabilities string }

const (
	none           = "0000000000000000"
	netBindService = "0000000000000400"
)

// runServer runs a second CoreDNS beside the cluster's own, as the chart's mode «server» has it, in the scene's namespace.
func (s *scene) runServer(c *cluster) {
	s.t.Helper()
	args := []string{"template", release, s.chart, "--namespace=" + s.namespace, "--set=dns.mode=server,dns.replicas=1,cluster.id=" + c.id,
		// Then the rights in one namespace are enough.
		"--set=dns.plugin.namespaces={" + s.namespace + "}"}
	if s.chosen["coredns"] {
		repository, tag := splitImage(s.images["coredns"])
		args = append(args, "--set=dns.image.repository="+repository+",dns.image.tag="+tag+",dns.image.digest=")
	}
	for _, object := range []string{"configmap", "deployment", "service", "serviceaccount"} {
		args = append(args, "--show-only=templates/dns/"+object+".yaml")
	}
	objects, err := s.run(s.t.Context(), "", s.helm, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.apply(c, objects+`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: multicluster-dns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: multicluster-dns}
subjects: [{kind: ServiceAccount, name: multicluster-dns, namespace: NAMESPACE}]
`)
	s.kubectl(c, "rollout", "status", "deployment/multicluster-dns", "--timeout=2m")
}

// onePod is one that runs.
func (s *scene) onePod(t *testing.T, c *cluster, p program) corev1.Pod {
	t.Helper()
	text, err := c.kubectl(t.Context(), "get", "pods", "--namespace="+p.namespace, "-l", p.labels, "--field-selector=status.phase=Running", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var list corev1.PodList
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].Ready {
			return pod
		}
	}
	t.Fatalf("%s has %d pods that run, none of which is ready", p.deployment, len(list.Items))
	return corev1.Pod{}
}

// node is a pod that sees the processes of a node. No «restricted» namespace takes it.
const node = `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  hostPID: true
  nodeName: NODE
  terminationGracePeriodSeconds: 0
  containers:
    - name: node
      image: IMAGE
      imagePullPolicy: IfNotPresent
      command: [sleep, infinity]
      securityContext: {capabilities: {add: [SYS_PTRACE]}}
`

// proc reads what the node's kernel says of a pod's only process: /proc/<pid>/status, and where / is mounted, of /proc/<pid>/mounts. It reads in a
// pod on that node, in a namespace that is not restricted.
func (s *scene) proc(t *testing.T, c *cluster, namespace, name string, pod corev1.Pod) map[string]string {
	t.Helper()
	text := strings.NewReplacer("NAME", name, "NODE", pod.Spec.NodeName, "IMAGE", s.images["tools"]).Replace(node)
	if err := c.apply(t.Context(), namespace, text); err != nil {
		t.Fatal(err)
	}
	if _, err := c.kubectl(t.Context(), "wait", "--namespace="+namespace, "--for=condition=Ready", "pod/"+name, "--timeout=5m"); err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	line := fmt.Sprintf(`for p in $(grep -l %s /proc/[0-9]*/cgroup); do cat ${p%%cgroup}status; grep " / " ${p%%cgroup}mounts | sed "s/^/mount: /"; done`, id)
	out, err := c.kubectl(t.Context(), "exec", name, "--namespace="+namespace, "--", "sh", "-c", line)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for text := range strings.Lines(out) {
		name, value, _ := strings.Cut(text, ":")
		seen[name] = strings.Join(strings.Fields(value), " ")
	}
	if processes := strings.Count(out, "\nPid:"); processes != 1 {
		t.Fatalf("%s has %d processes, want one: %s", pod.Name, processes, out)
	}
	return seen
}

func checkStatus(t *testing.T, seen map[string]string, capabilities string) {
	t.Helper()
	want := map[string]string{
		"Uid": "65532 65532 65532 65532", "Gid": "65532 65532 65532 65532",
		"NoNewPrivs": "1",
		"Seccomp":    "2", // a filter
		"CapBnd":     capabilities, "CapInh": none, "CapAmb": none,
	}
	got := map[string]string{}
	for name := range want {
		got[name] = seen[name]
	}
	if !maps.Equal(got, want) {
		t.Errorf("/proc/1/status contains %v, want %v", got, want)
	}
	for _, set := range []string{"CapEff", "CapPrm"} {
		if seen[set] != none && seen[set] != capabilities {
			t.Errorf("%s is %s, want no more than %s", set, seen[set], capabilities)
		}
	}
	if mount := strings.Fields(seen["mount"]); len(mount) < 4 || !strings.HasPrefix(mount[3]+",", "ro,") {
		t.Errorf("/ is mounted as %q, want it read-only", mount)
	}
}

// checkMemory wants Go to know nine tenths of the container's memory limit.
func checkMemory(t *testing.T, c *cluster, pod corev1.Pod) {
	t.Helper()
	metrics, err := c.kubectl(t.Context(), "get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:8080/proxy/metrics", pod.Namespace, pod.Name))
	if err != nil {
		t.Fatal(err)
	}
	limit := pod.Spec.Containers[0].Resources.Limits.Memory().Value()
	_, after, _ := strings.Cut(metrics, "\ngo_gc_gomemlimit_bytes ")
	line, _, _ := strings.Cut(after, "\n")
	if got, err := strconv.ParseFloat(line, 64); err != nil || limit == 0 || int64(got) != limit/10*9+limit%10*9/10 {
		t.Errorf("Go's memory limit is %q, want nine tenths of %d: %v", line, limit, err)
	}
}
