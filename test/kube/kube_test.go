package kube

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

var shared Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

func TestServerIsThePinnedVersion(t *testing.T) {
	c := shared.Cluster(t)
	want, err := newest.Version()
	if err != nil {
		t.Fatal(err)
	}
	version, err := kubernetes.NewForConfigOrDie(c.Config).Discovery().ServerVersion()
	if err != nil || version.GitVersion != want {
		t.Fatalf("version %v, %v; want %s", version, err, want)
	}
}

func TestServiceAccountIsForbiddenUntilSomethingIsBound(t *testing.T) {
	c := shared.Cluster(t)
	config, _, err := c.ServiceAccount(t.Context(), Namespace(t, c), "reader")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Services("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list services: %v; want forbidden", err)
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

// TestALostPortIsTriedAgain holds what the retry goes by to what the API server really says.
func TestALostPortIsTriedAgain(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	flag := fmt.Sprintf("--secure-port=%d", taken.Addr().(*net.TCPAddr).Port)
	if _, err := Start(t.Context(), Options{APIServerFlags: []string{flag}}); !lostPort(err) {
		t.Fatal(err)
	}
}
