package clusters

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/test/clusters/images"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// needClusters skips a test unless clusters are asked for: they need root, and minutes at the first time. Where they are asked for
// and cannot be, the test fails: a skip would pass for a proof.
func needClusters(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real clusters: not with -short")
	}
	if os.Getenv("CLUSTERS") != "1" {
		t.Skip("starts real clusters, as root: run it with CLUSTERS=1")
	}
	if err := checkNeeds(); err != nil {
		t.Fatal(err)
	}
}

// start gives a cluster that ends with the test, if not before.
func start(t *testing.T, options Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), options)
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestClustersSideBySide shows that pods of two clusters reach each other, that each cluster has
// its own ClusterIPs, and that one ends without a trace while the other continues.
func TestClustersSideBySide(t *testing.T) {
	needClusters(t)
	var both [2]*Cluster
	var starting sync.WaitGroup
	for i := range both {
		starting.Go(func() { both[i] = start(t, Options{Name: fmt.Sprintf("side%d", i), Index: 8 + i}) })
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	a, b := newWeb(t, both[0]), newWeb(t, both[1])
	for _, pair := range [][2]*web{{a, b}, {b, a}} {
		from, to := pair[0], pair[1]
		for _, address := range to.pod.Status.PodIPs {
			from.wants(t, to.cluster.Name, "curl -sS -m 5 http://%s/", net.JoinHostPort(address.IP, "8080"))
			from.wants(t, to.cluster.Name, "echo hello | socat -T 5 - UDP:%s", net.JoinHostPort(address.IP, "5300"))
		}
		for _, address := range from.service.Spec.ClusterIPs {
			from.wants(t, from.cluster.Name, "curl -sS -m 5 http://%s/", net.JoinHostPort(address, "80"))
		}
		from.wants(t, "nameserver "+from.cluster.DNS, "cat /etc/resolv.conf")
		from.wants(t, "20 of 20 at once", "for i in $(seq 20); do dig +tries=1 +time=5 @%s example.org | grep -q 'connection refused' && echo yes; done | "+
			"grep -c yes | sed 's/$/ of 20 at once/'", from.cluster.Node) // which is the node's resolver
	}
	_, err := Start(t.Context(), Options{Name: "other", Index: 9})
	if err == nil || !strings.Contains(err.Error(), both[1].Name) {
		t.Errorf("%v; want the name of the cluster that has the index", err)
	}
	leavesNothing(t, both[0], both[0].Stop)
	b.wants(t, both[1].Name, "curl -sS -m 5 http://%s/", b.service.Spec.ClusterIP)
	// As another process would, which knows the name alone.
	leavesNothing(t, both[1], func() error { return Remove(t.Context(), both[1].Name) })
}

// TestStartRemovesAnEarlierCluster: the first, with its pod, is never stopped.
func TestStartRemovesAnEarlierCluster(t *testing.T) {
	needClusters(t)
	first := start(t, Options{Name: "again", Index: 8})
	if first == nil {
		t.FailNow()
	}
	newWeb(t, first)
	leavesNothing(t, first, func() error {
		second := start(t, Options{Name: "again", Index: 9})
		if second == nil {
			return errors.New("no second cluster")
		}
		return second.Stop()
	})
}

// leavesNothing ends a cluster and looks for all that it had.
func leavesNothing(t *testing.T, c *Cluster, stop func() error) {
	t.Helper()
	pids, cgroups := c.processes(), c.cgroups()
	if len(pids) < 10 || len(cgroups) < 2 {
		t.Fatalf("%d processes, %d containers: the cluster does not even run", len(pids), len(cgroups))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("the process %d is left", pid)
		}
	}
	for _, cgroup := range cgroups {
		if left, _ := filepath.Glob("/sys/fs/cgroup/*" + cgroup); len(left) > 0 || exists("/sys/fs/cgroup"+cgroup) {
			t.Errorf("%v is left", left)
		}
	}
	for _, path := range []string{c.Dir, netnsFile(c.netns())} {
		if exists(path) {
			t.Errorf("%s is left", path)
		}
	}
	if text, err := os.ReadFile("/proc/mounts"); err != nil || strings.Contains(string(text), c.Dir) || strings.Contains(string(text), c.netns()) {
		t.Errorf("mounts are left (%v):\n%s", err, text)
	}
	others, err := List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(others) > 0 {
		links, err := kube.Output(exec.CommandContext(t.Context(), "ip", "-n", hub, "link", "show"))
		if err != nil || strings.Contains(links, c.port()) {
			t.Errorf("%v; a link is left:\n%s", err, links)
		}
		return
	}
	if exists(parent) || exists(netnsFile(hub)) || hasMachineLink() {
		t.Error("what clusters share is left")
	}
}

// web is a pod that returns the name of its cluster.
type web struct {
	cluster *Cluster
	pod     *corev1.Pod
	service *corev1.Service
}

const webObjects = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ipFamilyPolicy: RequireDualStack
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
    - {name: web, image: "` + images.Tools + `", imagePullPolicy: Never, command: [serve, --http, "8080", --udp, "5300"], env: [{name: CLUSTER_ID, value: NAME}]}
`

func newWeb(t *testing.T, c *Cluster) *web {
	t.Helper()
	if _, err := binaries.KubectlWith(t.Context(), c.Kubeconfig, strings.ReplaceAll(webObjects, "NAME", c.Name), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(c.Config).CoreV1()
	w := &web{cluster: c}
	kube.Eventually(t, "a pod of "+c.Name+" runs", func() (err error) {
		if w.service, err = client.Services("default").Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
			return err
		}
		if w.pod, err = client.Pods("default").Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
			return err
		}
		if w.pod.Status.Phase != corev1.PodRunning || len(w.pod.Status.PodIPs) != 2 {
			return fmt.Errorf("%s, %v, %+v", w.pod.Status.Phase, w.pod.Status.PodIPs, w.pod.Status.ContainerStatuses)
		}
		return nil
	})
	return w
}

// wants runs a shell's line in the pod until it prints what it should: kube-proxy needs its time.
func (w *web) wants(t *testing.T, want, line string, args ...any) {
	t.Helper()
	line = fmt.Sprintf(line, args...)
	kube.Eventually(t, line, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		text, err := binaries.KubectlWith(ctx, w.cluster.Kubeconfig, "", "exec", "web", "--", "sh", "-c", line)
		if err == nil && !strings.Contains(text, want) {
			err = fmt.Errorf("%q; want %q", text, want)
		}
		return err
	})
}
