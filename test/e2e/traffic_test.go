// Package e2e shows the main job on all real parts at once: in real clusters with pods, those of KUBECONFIGS, as `make e2e` runs it; and in one
// network namespace, with an API server, the controller, CoreDNS and kube-proxy, as `make test` does.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

const corefile = `
clusterset.local:{{.Port}} {
    bind 127.0.0.1
    errors
    multicluster {
        kubeconfig {{.Kubeconfig}}
    }
}
`

// world is one cluster with our programs and kube-proxy.
type world struct {
	t       *testing.T
	cluster *controlplane.Cluster
	dns     string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := controlplane.New(t, controlplane.Options{})
	w := &world{t: t, cluster: c}
	controller, err := func() (*controlplane.Beside, error) {
		if err := errors.Join(c.InstallCRDs(t.Context(), controlplane.BothVersions), c.StartKubeProxy(t.Context())); err != nil {
			return nil, err
		}
		return binaries.StartController(t.Context(), c)
	}()
	t.Cleanup(controller.Stop)
	if err != nil {
		t.Fatal(err)
	}
	coredns, address, err := binaries.StartCoreDNS(t.Context(), c, "coredns", corefile)
	t.Cleanup(coredns.Stop)
	if err != nil {
		t.Fatal(err)
	}
	w.dns = address
	return w
}

func (w *world) apply(text string) {
	w.t.Helper()
	if err := w.cluster.Apply(w.t.Context(), "default", text); err != nil {
		w.t.Fatal(err)
	}
}

// resolve is the one IPv4 address of a name.
func (w *world) resolve(name string) (string, error) {
	m, err := dns.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), w.dns)
	if err != nil {
		return "", err
	}
	if len(m.Answer) != 1 {
		return "", fmt.Errorf("%s: %s with %d records", name, dns.RcodeToString[m.Rcode], len(m.Answer))
	}
	return m.Answer[0].(*dns.A).A.String(), nil
}

// reaches returns which servers answer connections to a name's address on port 80, when exactly
// those in want have answered.
func (w *world) reaches(name string, want ...string) {
	w.t.Helper()
	heard := map[string]bool{}
	controlplane.Eventually(w.t, fmt.Sprintf("%s is answered by %v", name, want), func() error {
		ip, err := w.resolve(name)
		if err != nil {
			return err
		}
		who, err := hear(w.t.Context(), time.Second, net.JoinHostPort(ip, "80"))
		if err != nil {
			return err
		}
		heard[who] = true
		for _, server := range want {
			if !heard[server] {
				return fmt.Errorf("answered by %v so far", heard)
			}
		}
		return nil
	})
	if len(heard) != len(want) {
		w.t.Errorf("%s was answered by %v, want %v", name, heard, want)
	}
}

// hear connects and returns the server's text. A packet without a matching rule is lost, so a short
// timeout lets the caller retry sooner.
func hear(ctx context.Context, patience time.Duration, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	deadline, _ := ctx.Deadline()
	_ = c.SetReadDeadline(deadline)
	text, err := io.ReadAll(c)
	return string(text), err
}

// pod is a server on an address of its own, which answers each connection with that address.
func pod(t *testing.T, address string) {
	t.Helper()
	controlplane.Greet(t, net.JoinHostPort(address, "8080"), address)
}

const serve = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: NAME}
spec: {type: ClusterSetIP, IPS ports: [{name: http, port: 80}]}
`

const slice = `
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: NAME-CLUSTER, labels: {multicluster.kubernetes.io/service-name: NAME, multicluster.kubernetes.io/source-cluster: CLUSTER}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [ADDRESS]}]
`

func imported(name, ips string) string {
	text := serve
	for cluster, address := range map[string]string{"c1": "10.99.0.11", "c2": "10.99.0.12"} {
		text += strings.NewReplacer("CLUSTER", cluster, "ADDRESS", address).Replace(slice)
	}
	return strings.NewReplacer("NAME", name, "IPS", ips).Replace(text)
}

// The mcs-api demo's flow: an import and labelled slices applied by hand become a name whose address reaches the pods of both
// clusters; and `serve-with-vip`: an import that came with a VIP keeps it, and is reached by it.
func TestAnImportAppliedByHandCarriesTraffic(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		w := newWorld(t)
		pod(t, "10.99.0.11")
		pod(t, "10.99.0.12")
		w.apply(imported("serve", ""))
		w.reaches("serve.default.svc.clusterset.local.", "10.99.0.11", "10.99.0.12")

		w.apply(imported("serve-with-vip", "ips: [1.2.3.4],"))
		w.reaches("serve-with-vip.default.svc.clusterset.local.", "10.99.0.11", "10.99.0.12")
		if ip, err := w.resolve("serve-with-vip.default.svc.clusterset.local."); err != nil || ip != "1.2.3.4" {
			t.Errorf("serve-with-vip is %s, %v; want the VIP that it came with", ip, err)
		}
		// Its derived ClusterIP answers as well.
		ip, err := binaries.Kubectl(t.Context(), w.cluster, "get", "service", "derived-serve-with-vip", "-o", "jsonpath={.spec.clusterIP}")
		if err != nil {
			t.Fatal(err)
		}
		if who, err := hear(t.Context(), time.Second, net.JoinHostPort(ip, "80")); err != nil || !strings.HasPrefix(who, "10.99.0.") {
			t.Errorf("%s answers %q, %v", ip, who, err)
		}

		// One cluster's pods go: the others take all.
		if err := w.cluster.Delete(t.Context(), "default", strings.NewReplacer("NAME", "serve", "CLUSTER", "c1", "ADDRESS", "10.99.0.11").Replace(slice)); err != nil {
			t.Fatal(err)
		}
		controlplane.Eventually(t, "only c2 answers", func() error {
			for range 20 {
				ip, err := w.resolve("serve.default.svc.clusterset.local.")
				if err != nil {
					return err
				}
				if who, err := hear(t.Context(), time.Second, net.JoinHostPort(ip, "80")); err != nil || who != "10.99.0.12" {
					return fmt.Errorf("%q, %w", who, err)
				}
			}
			return nil
		})
	})
}
