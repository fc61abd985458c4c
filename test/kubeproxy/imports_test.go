package kubeproxy

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
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

// resolver asks a CoreDNS with our plugin, beside the world's controller.
type resolver struct {
	*world
	address string
}

func (w *world) startDNS() resolver {
	w.Helper()
	coredns, address, err := binaries.StartCoreDNS(w.Context(), w.cluster, "coredns", corefile)
	w.Cleanup(coredns.Stop)
	if err != nil {
		w.Fatal(err)
	}
	return resolver{w, address}
}

// resolve is the one IPv4 address of an import.
func (r resolver) resolve(name string) (string, error) {
	m, err := dns.Exchange(new(dns.Msg).SetQuestion(name+"."+r.namespace+".svc.clusterset.local.", dns.TypeA), r.address)
	if err != nil {
		return "", err
	}
	if len(m.Answer) != 1 {
		return "", fmt.Errorf("%s: %s with %d records", name, dns.RcodeToString[m.Rcode], len(m.Answer))
	}
	return m.Answer[0].(*dns.A).A.String(), nil
}

// ask resolves a name and asks its port 80 who answers.
func (r resolver) ask(name string) (string, error) {
	ip, err := r.resolve(name)
	if err != nil {
		return "", err
	}
	return hear(r.Context(), time.Second, net.JoinHostPort(ip, "80"))
}

// reaches waits until all of want have answered to a name, and no other.
func (r resolver) reaches(name string, want ...string) {
	r.Helper()
	heard := map[string]bool{}
	kube.Eventually(r.T, fmt.Sprintf("%s is answered by %v", name, want), func() error {
		who, err := r.ask(name)
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
		r.Errorf("%s was answered by %v, want %v", name, heard, want)
	}
}

const serve = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: NAME}
spec: {type: ClusterSetIP, IPS ports: [{name: http, port: 80}]}
`

const sliceOfServe = `
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
		text += strings.NewReplacer("CLUSTER", cluster, "ADDRESS", address).Replace(sliceOfServe)
	}
	return strings.NewReplacer("NAME", name, "IPS", ips).Replace(text)
}

// The mcs-api demo's flow: an import and labelled slices applied by hand become a name whose address reaches the pods of both
// clusters; and `serve-with-vip`: an import that came with a VIP keeps it, and is reached by it.
func TestAnImportAppliedByHandCarriesTraffic(t *testing.T) {
	w := newWorld(t)
	w.startWith() // in no clusterset
	r := w.startDNS()
	for _, address := range []string{"10.99.0.11", "10.99.0.12"} {
		kube.Greet(t, net.JoinHostPort(address, "8080"), address)
	}
	w.apply(imported("serve", ""))
	r.reaches("serve", "10.99.0.11", "10.99.0.12")

	w.apply(imported("serve-with-vip", "ips: [1.2.3.4],"))
	r.reaches("serve-with-vip", "10.99.0.11", "10.99.0.12")
	if ip, err := r.resolve("serve-with-vip"); err != nil || ip != "1.2.3.4" {
		t.Errorf("serve-with-vip is %s, %v; want the VIP that it came with", ip, err)
	}
	// Its derived ClusterIP answers as well.
	ip := w.clusterIP("derived-serve-with-vip")
	if who, err := hear(t.Context(), time.Second, net.JoinHostPort(ip, "80")); err != nil || !strings.HasPrefix(who, "10.99.0.") {
		t.Errorf("%s answers %q, %v", ip, who, err)
	}

	// One cluster's pods go: the others take all.
	w.delete(strings.NewReplacer("NAME", "serve", "CLUSTER", "c1", "ADDRESS", "10.99.0.11").Replace(sliceOfServe))
	kube.Eventually(t, "only c2 answers", func() error {
		for range 20 {
			if who, err := r.ask("serve"); err != nil || who != "10.99.0.12" {
				return fmt.Errorf("%q, %w", who, err)
			}
		}
		return nil
	})
}
