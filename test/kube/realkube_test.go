package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

var shared Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

func TestServerIsThePinnedVersion(t *testing.T) {
	c := shared.Cluster(t)
	source, err := findSource()
	if err != nil {
		t.Fatal(err)
	}
	version, err := kubernetes.NewForConfigOrDie(c.Config).Discovery().ServerVersion()
	if err != nil || version.GitVersion != source.version {
		t.Fatalf("version %v, %v; want %s", version, err, source.version)
	}
}

func TestKubeconfigIsPrivateAndTheAdministrators(t *testing.T) {
	c := shared.Cluster(t)
	info, err := os.Stat(c.Kubeconfig)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v; want the mode 0600", info.Mode(), err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestServiceAccountIsForbiddenUntilSomethingIsBound(t *testing.T) {
	c := shared.Cluster(t)
	config, kubeconfig, err := c.ServiceAccount(t.Context(), Namespace(t, c), "reader")
	if err != nil {
		t.Fatal(err)
	}
	fromFile, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range []*kubernetes.Clientset{kubernetes.NewForConfigOrDie(config), kubernetes.NewForConfigOrDie(fromFile)} {
		_, err := config.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("list services: %v; want forbidden", err)
		}
	}
}

func TestOutageKeepsAddressAndData(t *testing.T) {
	c := New(t, Options{})
	client := kubernetes.NewForConfigOrDie(c.Config)
	namespace := Namespace(t, c)
	before := c.Config.Host

	c.StopAPIServer()
	if _, err := client.Discovery().ServerVersion(); err == nil {
		t.Fatal("a stopped API server answers")
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err != nil || c.Config.Host != before {
		t.Fatalf("at %s, formerly %s: %v", c.Config.Host, before, err)
	}
}

func TestStopLeavesNoProcessAndNoFile(t *testing.T) {
	c := New(t, Options{ServiceCIDRs: "10.0.0.0/24,fd00:10::/112"})
	pids := []int{c.etcd.PID(), c.apiserver.PID()}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d: %v; want it gone", pid, err)
		}
	}
	if exists(c.dir) {
		t.Errorf("%s is left", c.dir)
	}
}

func TestGarbageIsCollected(t *testing.T) {
	c := New(t, Options{})
	if err := c.StartControllers(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(c.Config).CoreV1().ConfigMaps(Namespace(t, c))
	owner, err := client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	of := *metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{of}}}
	if _, err := client.Create(t.Context(), owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "garbage collection", func() error {
		_, err := client.Get(t.Context(), "owned", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("what the deleted object owned is still there"), err)
	})
}

func TestStartErrorContainsTheLastOutput(t *testing.T) {
	_, err := Start(t.Context(), Options{APIServerFlags: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Fatalf("%v; want the API server's own words", err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := Start(ctx, Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v; want a deadline", err)
	}
}

// TestALostPortIsTriedAgain holds what the retry goes by to what the API server really says.
func TestALostPortIsTriedAgain(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	attempts := 0
	err = retryBind(t.Context(), func(ctx context.Context) error {
		if attempts++; attempts > 1 {
			return nil
		}
		port := taken.Addr().(*net.TCPAddr).Port
		_, err := Start(ctx, Options{APIServerFlags: []string{fmt.Sprintf("--secure-port=%d", port)}})
		return err
	})
	if err != nil || attempts != 2 {
		t.Fatalf("%d attempts, %v", attempts, err)
	}
}
