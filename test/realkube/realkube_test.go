package realkube

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

var shared Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

func startForTest(t *testing.T, options Options) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestServerIsThePinnedVersion(t *testing.T) {
	c := shared.Cluster(t)
	source, err := findSource()
	if err != nil {
		t.Fatal(err)
	}
	version, err := kubernetes.NewForConfigOrDie(c.Config).Discovery().ServerVersion()
	if err != nil || version.GitVersion != source.kubernetes {
		t.Fatalf("version %v, %v; want %s", version, err, source.kubernetes)
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
	c := startForTest(t, Options{})
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
	c := startForTest(t, Options{ServiceCIDRs: "10.0.0.0/24,fd00:10::/112"})
	pids := []int{c.etcd.cmd.Process.Pid, c.apiserver.cmd.Process.Pid}
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

func TestStartSaysWhatAProgramSaidLast(t *testing.T) {
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

func TestALostPortIsToldFromOtherEnds(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]bool{"listen tcp 127.0.0.1:1: bind: address already in use": true, "no such flag": false} {
		p, err := run(dir, "/bin/sh", "-c", "echo '"+text+"'; exit 1")
		if err != nil {
			t.Fatal(err)
		}
		err = p.wait(t.Context(), func(context.Context) error { return errors.New("not ready") })
		if lostPort(err) != want {
			t.Errorf("%v: taken for a lost port: %t", err, !want)
		}
		if err := os.Remove(filepath.Join(dir, "sh.log")); err != nil {
			t.Fatal(err)
		}
	}
}
