package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world"
)

// TestNewcomerLeavesTheOldestsTraffic is a regression test as clients see it: east exports one port without a name. West comes with named ports, goes,
// and comes with others, while clients in west connect to east's port without a pause. Each of them reaches a server: that of west, too, while it has
// the same port under another name. Then both prefer local endpoints.
func TestNewcomerLeavesTheOldestsTraffic(t *testing.T) {
	kube.InNetNS(t, func(t *testing.T) { // two clusters, and one of them with a kube-proxy of its own
		ns := world.Joined(t, "east", "west").Namespace()
		ns.Run("east")
		ns.Run("west")
		ns.Must(ns.Cluster("west").StartKubeProxy(t.Context()))
		kube.Greet(t, "10.99.0.11:8080", "east")
		kube.Greet(t, "10.99.0.12:8080", "west")

		ns.Create("east", exported("10.99.0.11", corev1.ServicePort{Port: 80})...)
		var ip string
		world.Becomes(ns, "west", new(mcsv1beta1.ServiceImport), "foo", "it has an address", func(imp *mcsv1beta1.ServiceImport) bool {
			if len(imp.Spec.IPs) > 0 {
				ip = imp.Spec.IPs[0]
			}
			return ip != ""
		})
		oldest := net.JoinHostPort(ip, "80")
		leads(t, oldest, "east")
		end := keepConnecting(t, oldest, "")
		for _, ports := range [][]corev1.ServicePort{{{Name: "http", Port: 80}, {Name: "metrics", Port: 9090}}, {{Name: "http", Port: 8080}}} {
			export := exported("10.99.0.12", ports...)
			ns.Create("west", export...)
			newest := net.JoinHostPort(ip, fmt.Sprint(ports[len(ports)-1].Port))
			leads(t, newest, "west")
			if ports[0].Port == 80 {
				leads(t, oldest, "west")
			}
			ns.Delete("west", export...)
			leads(t, newest, "")
		}
		end()

		// Both export the same now. Traffic goes to this cluster, as long as it has a ready endpoint.
		export := exported("10.99.0.12", corev1.ServicePort{Port: 80})
		ns.Create("west", export...)
		for _, id := range []string{"east", "west"} {
			world.Edit(ns, id, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) {
				export.Annotations = map[string]string{mcs.AnnotationPreferClusters: "local, any"}
			})
		}
		leadsOnly(t, oldest, "west")
		end = keepConnecting(t, oldest, "west")
		ns.Create("west", world.Service("later"), world.Export("later"))
		ns.Until("the controller has worked since", func() error { return ns.Imported("west", "later", []string{"west"}) })
		end()
		ns.Delete("west", export[1])
		leadsOnly(t, oldest, "east")
	})
}

// exported is foo with some ports, all of which lead to the same server.
func exported(address string, ports ...corev1.ServicePort) []client.Object {
	svc := world.Service("foo", world.Ports(ports...))
	slice := world.Endpoints(svc, "", address)
	for i := range slice.Ports {
		slice.Ports[i].Port = new(int32(8080))
	}
	return []client.Object{svc, slice, world.Export("foo")}
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

// leadsOnly waits until many connections one after another all reach somebody.
func leadsOnly(t *testing.T, address, who string) {
	t.Helper()
	kube.Eventually(t, fmt.Sprintf("%s leads to %s only", address, who), func() error {
		for range 40 {
			if name, err := hear(t.Context(), 5*time.Second, address); name != who {
				return errors.Join(err, fmt.Errorf("it leads to %q", name))
			}
		}
		return nil
	})
}

// keepConnecting lets clients connect until the end, which reports the clients that did not reach
// the server, or any server for "".
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
				if name, err := hear(t.Context(), 5*time.Second, address); name == "" || who != "" && name != who || err != nil {
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
