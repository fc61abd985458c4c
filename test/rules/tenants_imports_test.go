package rules

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/world"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// TestImportsAreOfTheirNamespace: names in another namespace, dots in a name and a namespace called
// svc give no access to other names.
func TestImportsAreOfTheirNamespace(t *testing.T) {
	s := newTenants(t)
	s.Export("c1", world.Service("db", world.Headless), "10.9.1.1")
	s.answers("pod-0.c1.db", "NOERROR 10.9.1.1")
	tenant := s.tenant("c1", "edit", importsToo, slicesToo)

	elsewhere := world.Import("kube-dns", mcsv1beta1.ClusterSetIP, "10.66.0.1")
	elsewhere.Namespace = "kube-system"
	if err := s.Try(tenant, elsewhere); !apierrors.IsForbidden(err) {
		t.Errorf("an import in another namespace: %v; want forbidden", err)
	}
	for name, refused := range map[string]bool{"pod-0.c1.db": false, "db." + s.Name: false, "UPPER": true, "under_score": true, "*": true, "a..b": true} {
		err := s.Try(tenant, world.Import(name, mcsv1beta1.ClusterSetIP, "10.66.0.1"))
		if refused != apierrors.IsInvalid(err) || !refused && err != nil {
			t.Errorf("an import called %s: %v; refused has to be %v", name, err, refused)
		}
	}
	s.CreateAs(tenant, world.Import("svc", mcsv1beta1.ClusterSetIP, "10.66.0.2"), world.Import("c1", mcsv1beta1.ClusterSetIP, "10.66.0.3"))
	s.answers("svc", "NOERROR 10.66.0.2")
	s.settled()
	for below, want := range map[string]string{"db": "NOERROR 10.9.1.1", "pod-0.c1.db": "NOERROR 10.9.1.1", "c1.db": "NOERROR", "pod-0.c1": "NXDOMAIN"} {
		s.Check(s.answered(below, want))
	}
	system := &tenants{s.Called("svc", "c1"), s.server}
	system.CreateAs(system.tenant("c1", "view", importsToo), world.Import("svc", mcsv1beta1.ClusterSetIP, "10.66.0.4"))
	system.answers("svc", "NOERROR 10.66.0.4")
	s.Check(resolver.Differs("udp", s.server, "svc.clusterset.local. A", "NOERROR"))
	s.Check(resolver.Differs("udp", s.server, "clusterset.local. NS", "NOERROR ns.dns.clusterset.local."))
}

// TestWrongAddressesForgeNoLogLine: what a tenant writes into an object comes into a log in quotes, on one line.
func TestWrongAddressesForgeNoLogLine(t *testing.T) {
	s := newTenants(t)
	tenant := s.tenant("c1", "view", importsToo)
	s.CreateAs(tenant, world.Import("forger", mcsv1beta1.ClusterSetIP, "1.1.1.1\n[ERROR] forged-line"))
	s.Until("told of", func() error {
		text, err := os.ReadFile(beside.coredns.Log())
		switch text := string(text); {
		case err != nil:
			return err
		case strings.Contains(text, "\n[ERROR] forged-line"):
			t.Fatal("a line of the log is the tenant's")
		case !strings.Contains(text, s.Name+`/forger: spec.ips has "1.1.1.1\n[ERROR] forged-line"`):
			return errors.New("the log does not contain it")
		}
		return nil
	})
}

// TestWritersOfImportsHaveEveryName: users with permission to write imports own all names of the
// namespace, including those of the controller: what they take from it does not return. As long as it has an import, they set no address
// of it.
func TestWritersOfImportsHaveEveryName(t *testing.T) {
	s := newTenants(t)
	tenant := s.tenant("c1", "view", importsToo)
	vips := map[string]string{}
	for _, name := range []string{"answered", "taken", "karmadas"} {
		s.Export("c2", world.Service(name), "10.9.2.1")
		vips[name] = s.answersOfImport(name)
		s.Until("its endpoints", func() error { return s.leads("c1", labelLeadsTo, "derived-"+name, "10.9.2.1") })
	}
	for name, patch := range map[string]string{
		"answered": `{"spec":{"ips":["192.0.2.66"]}}`,
		"taken":    `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null},"annotations":{"clusterset-dns.io/exports":null}}}`,
		"karmadas": `{"metadata":{"labels":{"karmada.io/managed":"true"}}}`,
	} {
		s.Must(s.patch(tenant, of(s, world.Import(name, mcsv1beta1.ClusterSetIP)), patch))
	}
	world.Becomes(s.Namespace, "c1", new(mcsv1beta1.ServiceImport), "answered", "its own address again", func(imp *mcsv1beta1.ServiceImport) bool {
		return slices.Equal(imp.Spec.IPs, []string{vips["answered"]})
	})
	empty := func() error {
		return errors.Join(s.leads("c1", labelLeadsTo, "derived-taken"), s.leads("c1", labelLeadsTo, "derived-karmadas"))
	}
	s.Until("no endpoints are left", empty)
	s.settled()
	s.Check(errors.Join(s.answered("answered", "NOERROR "+vips["answered"]), empty()))
}
