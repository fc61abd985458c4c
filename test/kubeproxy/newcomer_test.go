package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube"
	members "github.com/clusterset-dns/multicluster/test/world"
)

// TestNewcomerLeavesTheOldestsTraffic is a regression test as clients see it: east exports one port without a name. West comes with named ports, goes,
// and comes with others, while clients in west connect to east's port without a pause. Each of them reaches east.
func TestNewcomerLeavesTheOldestsTraffic(t *testing.T) {
	kube.InNetNS(t, func(t *testing.T) { // two clusters, and one of them with a kube-proxy of its own
		east, west := startMember(t, "east"), startMember(t, "west")
		err := errors.Join(west.StartKubeProxy(t.Context()),
			west.Join(t.Context(), "east", east.ReaderKubeconfig), east.Join(t.Context(), "west", west.ReaderKubeconfig))
		if err != nil {
			t.Fatal(err)
		}
		kube.Greet(t, "10.99.0.11:8080", "east")
		kube.Greet(t, "10.99.0.12:8080", "west")

		applied(t, east, exportOf("{port: 80}", `{name: "", port: 8080}`, "10.99.0.11"))
		ip := importedAddress(t, west)
		oldest := net.JoinHostPort(ip, "80")
		leads(t, oldest, "east")
		end := keepConnecting(t, oldest, "east")
		for _, ports := range []struct{ service, slice, newest string }{
			{"{name: http, port: 80}, {name: metrics, port: 9090}", "{name: http, port: 8080}, {name: metrics, port: 8080}", "9090"},
			{"{name: http, port: 8080}", "{name: http, port: 8080}", "8080"},
		} {
			export := exportOf(ports.service, ports.slice, "10.99.0.12")
			applied(t, west, export)
			leads(t, net.JoinHostPort(ip, ports.newest), "west")
			if err := west.Delete(t.Context(), "default", export); err != nil {
				t.Fatal(err)
			}
			leads(t, net.JoinHostPort(ip, ports.newest), "")
		}
		end()
	})
}

func startMember(t *testing.T, id string) *members.Cluster {
	t.Helper()
	c, err := members.Start(t.Context(), id, kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Run(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	return c
}

// exportOf is foo, exported with some ports.
func exportOf(servicePorts, slicePorts, address string) string {
	return strings.NewReplacer("{name: http, port: 80}", servicePorts, "{name: http, port: 8080}", slicePorts, "10.99.0.11", address).Replace(exportedFoo)
}

func applied(t *testing.T, c *members.Cluster, text string) {
	t.Helper()
	if err := c.Apply(t.Context(), "default", text); err != nil {
		t.Fatal(err)
	}
}

// leads waits until an address leads to somebody, or nowhere.
func leads(t *testing.T, address, who string) {
	t.Helper()
	kube.Eventually(t, fmt.Sprintf("%s leads to %q", address, who), func() error {
		name, err := hear(t.Context(), 5*time.Second, address)
		if name == who {
			return nil
		}
		return errors.Join(err, fmt.Errorf("it leads to %q", name))
	})
}

// importedAddress waits for the first address of foo.
func importedAddress(t *testing.T, c *members.Cluster) (ip string) {
	t.Helper()
	kube.Eventually(t, "foo has an address", func() error {
		imp := new(mcsv1beta1.ServiceImport)
		err := c.Admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "foo"}, imp)
		if err == nil && len(imp.Spec.IPs) == 0 {
			err = errors.New("it has none")
		}
		if err == nil {
			ip = imp.Spec.IPs[0]
		}
		return err
	})
	return ip
}

// keepConnecting lets clients connect until the end, which reports the clients that did not reach
// the server.
func keepConnecting(t *testing.T, address, who string) (end func()) {
	t.Helper()
	const clients = 4
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	counts := make([]int, clients)
	for i := range clients {
		all.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond) // or TIME_WAIT would take all ports
			defer tick.Stop()
			for ; ctx.Err() == nil; counts[i]++ {
				if name, err := hear(t.Context(), 5*time.Second, address); name != who || err != nil {
					t.Errorf("connection %d of client %d to %s reached %q: %v", counts[i], i, address, name, err)
				}
				<-tick.C
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
		sum := 0
		for _, n := range counts {
			sum += n
		}
		t.Logf("%d connections", sum)
		if sum == 0 {
			t.Error("nobody connected")
		}
	}
}
