package kube

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestKubeProxyIsRefusedOutsideItsOwnNetwork(t *testing.T) {
	if err := new(Cluster).StartKubeProxy(t.Context()); !errors.Is(err, errNotInside) {
		t.Fatalf("%v; want %v", err, errNotInside)
	}
}

// TestOwnNetworkIsNotTheMachines: the test is root there, and sees nothing but its own loopback interface.
func TestOwnNetworkIsNotTheMachines(t *testing.T) {
	InNetNS(t, func(t *testing.T) {
		interfaces, err := net.Interfaces()
		if err != nil || len(interfaces) != 1 || os.Geteuid() != 0 {
			t.Fatalf("interfaces %v, user %d, %v", interfaces, os.Geteuid(), err)
		}
	})
}

func TestFailureInsideIsSeenOutside(t *testing.T) {
	if insideNetNS() {
		t.Fatal("failed as wanted")
	}
	var output strings.Builder
	err := again(t.Name(), &output, only(t)...)
	if _, ok := errors.AsType[*exec.ExitError](err); !ok || !strings.Contains(output.String(), "failed as wanted") {
		t.Fatalf("%v: %s", err, &output)
	}
}
