package mcsapi

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/interop/beside"
	"github.com/clusterset-dns/multicluster/test/kube"
)

var programs = kube.Module{
	Dir:      "test/interop/programs/mcsapi",
	Requires: "sigs.k8s.io/mcs-api/controllers",
	Packages: map[string]string{"servicecontroller": "sigs.k8s.io/mcs-api/controllers/cmd/servicecontroller"},
	Usual:    "about 2 minutes",
}

// imported is what a user of the reference controllers creates by hand in the importing cluster, as the demo of mcs-api does: an import,
// and a slice with the endpoints of the exporting cluster.
const imported = `
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: NAME}
spec:
  type: ClusterSetIP
  ports: [{name: http, port: 80, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: NAME-c1
  labels: {multicluster.kubernetes.io/service-name: NAME, multicluster.kubernetes.io/source-cluster: c1}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.20.1.1], conditions: {ready: true}}]
`

const headless = `
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: db}
spec:
  type: Headless
  ports: [{name: sql, port: 5432, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: db-c1
  labels: {multicluster.kubernetes.io/service-name: db, multicluster.kubernetes.io/source-cluster: c1}
addressType: IPv4
ports: [{name: sql, port: 5432}]
endpoints: [{addresses: [10.20.1.10], hostname: db-0, conditions: {ready: true}}]
`

// place is one namespace of a cluster with the reference controllers.
type place struct{ *beside.Importer }

func TestBesideReference(t *testing.T) {
	if os.Getenv("INTEROP") == "" {
		t.Skip("needs the reference controllers: run make e2e-mcsapi")
	}
	ctrl.SetLogger(logr.Discard())
	for name, form := range map[string]kube.CRDs{"v1alpha1 and v1beta1": kube.BothVersions, "v1alpha1": kube.OnlyV1Alpha1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, form)
			t.Run("DNS answers", p.testAnswers)
			t.Run("beside our controller", func(t *testing.T) {
				beside.StartController(t, p.Cluster)
				t.Run("new imports", p.testWrites)
				t.Run("DNS answers", p.testAnswers)
				t.Run("a VIP of the user", p.testVIP)
			})
		})
	}
}

func newPlace(t *testing.T, form kube.CRDs) *place {
	t.Helper()
	paths, err := programs.Build(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	c := kube.New(t, kube.Options{ServiceCIDRs: "10.0.0.0/24,fd00:10::/112"})
	if err := c.InstallCRDs(t.Context(), form); err != nil {
		t.Fatal(err)
	}
	metrics := beside.FreeAddress(t)
	beside.Run(t, c, beside.Page("http://"+metrics+"/metrics"), paths["servicecontroller"], "--kubeconfig="+c.Kubeconfig, "--metrics-addr="+metrics)
	return &place{beside.NewImporter(t, c, kube.Namespace(t, c), "v1alpha1")}
}

// create is what the user applies for a name.
func (p *place) create(t *testing.T, name string) {
	t.Helper()
	p.Write(t, imported, "NAME", name)
}

// served waits until an import has the addresses of the Service that its annotation names, and no other Service is derived from it.
func (p *place) served(t *testing.T, name string) *mcsv1beta1.ServiceImport {
	t.Helper()
	imp := p.Served(t, name, func(imp *mcsv1beta1.ServiceImport, derived *corev1.Service) error {
		if !slices.Equal(imp.Spec.IPs, derived.Spec.ClusterIPs) {
			return fmt.Errorf("ips %v; Service %s has %v", imp.Spec.IPs, derived.Name, derived.Spec.ClusterIPs)
		}
		return nil
	})
	kube.Eventually(t, "the endpoints of "+name, func() error { return p.carried(t, name, imp.Annotations[mcs.AnnotationDerivedService]) })
	return imp
}

// carried wants one slice of an import that kube-proxy uses, and it belongs to the derived Service.
func (p *place) carried(t *testing.T, name, service string) error {
	t.Helper()
	var all discoveryv1.EndpointSliceList
	if err := p.API.List(t.Context(), &all, client.InNamespace(p.Namespace), client.MatchingLabels{mcsv1beta1.LabelServiceName: name}); err != nil {
		return err
	}
	var services []string
	for _, slice := range all.Items {
		if of := slice.Labels[discoveryv1.LabelServiceName]; of != "" {
			services = append(services, of)
		}
	}
	if !slices.Equal(services, []string{service}) {
		return fmt.Errorf("the slices are of Services %v; want one of %s", services, service)
	}
	return nil
}

func (p *place) testAnswers(t *testing.T) {
	p.create(t, "serve")
	serve := p.served(t, "serve")
	p.Write(t, headless)
	below := "." + p.Namespace + ".svc.clusterset.local."
	srv := "NOERROR 0 100 80 serve" + below
	p.Answers(t, []beside.Question{
		{Name: "serve", Type: dns.TypeA, Want: "NOERROR " + serve.Spec.IPs[0]},
		{Name: "serve", Type: dns.TypeSRV, Want: srv},
		{Name: "_http._tcp.serve", Type: dns.TypeSRV, Want: srv},
		{Name: "_sql._tcp.serve", Type: dns.TypeSRV, Want: "NXDOMAIN"},
		{Name: "db", Type: dns.TypeA, Want: "NOERROR 10.20.1.10"},
		{Name: "db-0.c1.db", Type: dns.TypeA, Want: "NOERROR 10.20.1.10"},
		{Name: "_sql._tcp.db", Type: dns.TypeSRV, Want: "NOERROR 0 100 5432 db-0.c1.db" + below},
		{Name: "db-1.c1.db", Type: dns.TypeA, Want: "NXDOMAIN"},
		{Name: "nobody", Type: dns.TypeA, Want: "NXDOMAIN"},
		{Name: serve.Annotations[mcs.AnnotationDerivedService], Type: dns.TypeA, Want: "NXDOMAIN"},
	}...)
}

// testWrites has new imports, which both controllers see at once.
func (p *place) testWrites(t *testing.T) {
	writes := beside.WatchWrites(t, p.Cluster, p.Namespace, "v1alpha1")
	began := writes.Now()
	const names = 20
	for i := range names {
		name := fmt.Sprintf("new-%d", i)
		p.create(t, name)
		p.served(t, name)
	}
	for i := range names {
		p.served(t, fmt.Sprintf("new-%d", i))
	}
	p.served(t, "serve")
	writes.AtMost(t, began, 8) // creation, both annotations, addresses, status
	writes.Rest(t, func(round int) {
		name := fmt.Sprintf("later-%d", round)
		p.create(t, name)
		p.served(t, name)
	})
}

// testVIP is the demo's import whose ips a user set. The reference controllers replace them with the address of their Service, so the
// user's address does not stay, and both servers answer with the same.
func (p *place) testVIP(t *testing.T) {
	p.Write(t, imported, "NAME", "vip", "type: ClusterSetIP", "type: ClusterSetIP\n  ips: [192.0.2.1]")
	imp := p.served(t, "vip")
	p.Answers(t, beside.Question{Name: "vip", Type: dns.TypeA, Want: "NOERROR " + imp.Spec.IPs[0]})
}
