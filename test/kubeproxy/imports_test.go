package kubeproxy

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// startDNS starts a CoreDNS with our plugin, beside the stage's controller.
func (s *stage) startDNS() {
	s.Helper()
	coredns, address, err := binaries.StartCoreDNS(s.Context(), s.Cluster("c1").Cluster, "coredns", resolver.Corefile)
	s.Cleanup(coredns.Stop)
	s.Must(err)
	s.dns = address
}

// resolve is the one IPv4 address of an import.
func (s *stage) resolve(name string) (string, error) {
	m, err := resolver.Ask("udp", s.dns, name+"."+s.Name+".svc.clusterset.local. A")
	if err != nil {
		return "", err
	}
	if len(m.Answer) != 1 {
		return "", fmt.Errorf("%s: %s", name, resolver.Short(m))
	}
	return resolver.Data(m.Answer[0]), nil
}

// ask resolves a name and asks its port 80 who answers.
func (s *stage) ask(name string) (string, error) {
	ip, err := s.resolve(name)
	if err != nil {
		return "", err
	}
	return hear(s.Context(), time.Second, net.JoinHostPort(ip, "80"))
}

// reaches waits until all of want have answered to a name, and no other.
func (s *stage) reaches(name string, want ...string) {
	s.Helper()
	heard := map[string]bool{}
	s.Until(fmt.Sprintf("%s is answered by %v", name, want), func() error {
		who, err := s.ask(name)
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
		s.Errorf("%s was answered by %v, want %v", name, heard, want)
	}
}

// imported applies an import by hand, with a slice of each of two clusters.
func (s *stage) imported(name string, ips ...string) {
	s.Helper()
	s.Create("c1", world.Import(name, mcsv1beta1.ClusterSetIP, ips...))
	for cluster, address := range map[string]string{"c1": "10.99.0.11", "c2": "10.99.0.12"} {
		labels := map[string]string{mcsv1beta1.LabelServiceName: name, mcsv1beta1.LabelSourceCluster: cluster}
		s.Create("c1", world.Slice(name+"-"+cluster, labels, address))
	}
}

// The mcs-api demo's flow: an import and labelled slices applied by hand become a name whose address reaches the pods of both
// clusters; and `serve-with-vip`: an import that came with a VIP keeps it, and is reached by it.
func TestAnImportAppliedByHandCarriesTraffic(t *testing.T) {
	s := newStage(t)
	s.startWith() // in no clusterset
	s.startDNS()
	for _, address := range []string{"10.99.0.11", "10.99.0.12"} {
		kube.Greet(t, net.JoinHostPort(address, "8080"), address)
	}
	s.imported("serve")
	s.reaches("serve", "10.99.0.11", "10.99.0.12")

	s.imported("serve-with-vip", "1.2.3.4")
	s.reaches("serve-with-vip", "10.99.0.11", "10.99.0.12")
	if ip, err := s.resolve("serve-with-vip"); err != nil || ip != "1.2.3.4" {
		t.Errorf("serve-with-vip is %s, %v; want the VIP that it came with", ip, err)
	}
	// Its derived ClusterIP answers as well.
	ip := s.clusterIP("derived-serve-with-vip")
	if who, err := hear(t.Context(), time.Second, net.JoinHostPort(ip, "80")); err != nil || !strings.HasPrefix(who, "10.99.0.") {
		t.Errorf("%s answers %q, %v", ip, who, err)
	}

	// One cluster's pods go: the others take all.
	s.Delete("c1", s.slice("serve-c1"))
	kube.Eventually(t, "only c2 answers", func() error {
		for range 20 {
			if who, err := s.ask("serve"); err != nil || who != "10.99.0.12" {
				return fmt.Errorf("%q, %w", who, err)
			}
		}
		return nil
	})
}
