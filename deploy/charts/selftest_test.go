package charts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// testsRelease runs `helm test` where the release's CoreDNS is the one of pods: it fails for each of the causes that it looks for, and names
// the cause.
func testsRelease(t *testing.T, c *kube.Cluster, server *kube.Program) {
	t.Helper()
	nameserver(t, "127.0.0.1")
	lease := func(connected, reason string) {
		t.Helper()
		text := fmt.Sprintf("{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: c2, labels: {clusterset-dns.io/peer: '', clusterset-dns.io/connected: %q, clusterset-dns.io/reason: %s}}}", connected, reason)
		if err := c.Apply(t.Context(), system, text); err != nil {
			t.Fatal(err)
		}
	}
	wantsTest(t, c, true, `ok      dns-version.clusterset.local. has the TXT record "1.0.0"`, "there are 0\n")
	lease("False", "Unreachable")
	wantsTest(t, c, false, "failed  1 of 1 peers are not connected: c2 (Unreachable)")
	lease("True", "Connected")
	wantsTest(t, c, true, "all peers are connected: there are 1\n")
	name := func(name string) {
		t.Helper()
		onCluster(t, c, "", "upgrade", release, chart, "--reset-then-reuse-values", "--set", "test.name="+name+".default.svc.clusterset.local")
	}
	name("missing")
	wantsTest(t, c, false, "failed  resolve missing.default.svc.clusterset.local: ")
	name("foo")
	if err := c.Apply(t.Context(), "default", "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: foo}, spec: {type: ClusterSetIP, ips: [10.0.0.77], ports: []}}"); err != nil {
		t.Fatal(err)
	}
	wantsTest(t, c, true, "ok      foo.default.svc.clusterset.local has the address 10.0.0.77\n")
	server.Stop()
	wantsTest(t, c, false, "failed  resolve TXT dns-version.clusterset.local.")
}

// wantsTest wants `helm test` to pass or to fail, and texts in the log of its pod.
func wantsTest(t *testing.T, c *kube.Cluster, passes bool, texts ...string) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := helm(t, c.Kubeconfig, "", "test", release, "--namespace", system, "--timeout=60s")
		ended <- err
	}()
	log := kubelet(t, c)
	if err := <-ended; (err == nil) != passes {
		t.Errorf("helm test: %v; want it to pass: %t\n%s", err, passes, log)
	}
	for _, text := range texts {
		if !strings.Contains(log, text) {
			t.Errorf("the log is\n%s\nwant %q", log, text)
		}
	}
}

// kubelet runs the pod of the test, as its account, and sets its phase. It returns the log.
func kubelet(t *testing.T, c *kube.Cluster) string {
	t.Helper()
	pods := kubernetes.NewForConfigOrDie(c.Config).CoreV1().Pods(system)
	var pod *corev1.Pod
	kube.Eventually(t, "the pod of the test", func() (err error) {
		if pod, err = pods.Get(t.Context(), "multicluster-test", metav1.GetOptions{}); err == nil && pod.Status.Phase != corev1.PodPending {
			err = errors.New("there is the one of the last test")
		}
		return err
	})
	_, kubeconfig, err := c.ServiceAccount(t.Context(), system, pod.Spec.ServiceAccountName)
	if err != nil {
		t.Fatal(err)
	}
	program, err := binaries.Program("multicluster-controller")
	if err != nil {
		t.Fatal(err)
	}
	log, err := exec.CommandContext(t.Context(), program, append(pod.Spec.Containers[0].Args, "--kubeconfig="+kubeconfig, "--timeout=1500ms")...).CombinedOutput()
	pod.Status.Phase = corev1.PodSucceeded
	if err != nil {
		pod.Status.Phase = corev1.PodFailed
	}
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return string(log)
}

// nameserver gives the test's own mount namespace another /etc/resolv.conf, as a kubelet gives it to a pod.
func nameserver(t *testing.T, address string) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(source, []byte("nameserver "+address+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "mount", "--bind", source, target).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
