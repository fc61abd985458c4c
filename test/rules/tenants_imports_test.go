package rules

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// TestFinalizersBlockOnlyTheirOwnSlice: a tenant's finalizer keeps only the tenant's import. The
// next import of the name, and other names, are not affected.
func TestFinalizersBlockOnlyTheirOwnSlice(t *testing.T) {
	s := newTenants(t)
	tenant := s.tenant("c1", "view", importsToo)
	held := world.Import("held", mcsv1beta1.ClusterSetIP)
	held.Finalizers = []string{"example.org/held"}
	s.CreateAs(tenant, held)
	s.answersOfImport("held")
	s.Must(tenant.Delete(t.Context(), held))
	s.Export("c1", world.Service("free"), "10.9.1.1")
	s.answersOfImport("free")
	if imp := s.MustImport("c1", "held"); imp.DeletionTimestamp == nil {
		t.Errorf("the held import: %v", imp)
	}
	world.EditAs(s.Namespace, tenant, new(mcsv1beta1.ServiceImport), "held", func(imp *mcsv1beta1.ServiceImport) { imp.Finalizers = nil })
	s.answers("held", "NXDOMAIN")
}

// TestFloodCostsOthersNothing: objects that are huge or wrong cost themselves. A neighbour's export comes while they are worked on.
func TestFloodCostsOthersNothing(t *testing.T) {
	theirs, s := newTenants(t), newTenants(t)
	tenant := s.tenant("c1", "edit", importsToo, slicesToo, exportsToo)
	took := func(what string) time.Duration {
		began, name := time.Now(), strings.ReplaceAll(what, " ", "-")
		theirs.Export("c1", world.Service(name, world.Headless), "10.9.1.1")
		theirs.answers(name, "NOERROR 10.9.1.1")
		s.Until("in c2", func() error { return theirs.hasEndpoints("c2", name, "10.9.1.1") })
		return time.Since(began)
	}
	before := took("before")
	s.flood(tenant)
	during := took("during")
	t.Logf("a neighbour's export was answered and imported after %v, during a flood after %v", before.Round(time.Millisecond), during.Round(time.Millisecond))
	// A new name waits ten seconds behind names that change, at most, and then comes before them. On a busy machine it takes that long.
	if during > 30*time.Second {
		t.Errorf("it took %v; want less than 30 s", during)
	}
	s.Until("the tenant's own names are answered", func() error {
		return resolver.Differs("tcp", s.server, s.name("byhand")+" A", "NOERROR "+strings.Join(manyAddresses(1000), " "))
	})
}

// flood makes 200 imports without a port that could be used, one with 1000 ports, and a headless one with 20 slices of 1000 endpoints.
func (s *tenants) flood(by client.Client) {
	s.Helper()
	for i := range 200 {
		odd := world.Import(fmt.Sprint("odd-", i), mcsv1beta1.ClusterSetIP, "\n1.2.3.4 forged", strings.Repeat("9", 10_000))
		odd.Spec.Ports = []mcsv1beta1.ServicePort{{Name: strings.Repeat("x", 1000), Port: -1}}
		s.CreateAs(by, odd)
	}
	huge := world.Import("huge", mcsv1beta1.ClusterSetIP)
	huge.Spec.Ports = nil
	for i := range 1000 {
		huge.Spec.Ports = append(huge.Spec.Ports, mcsv1beta1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1)})
	}
	s.CreateAs(by, huge, world.Import("byhand", mcsv1beta1.Headless))
	for i := range 20 {
		s.CreateAs(by, world.Slice(fmt.Sprint("huge-", i), map[string]string{labelService: "byhand", labelCluster: "c1"}, manyAddresses(1000)...))
	}
}

// manyAddresses are some, in the order of their text.
func manyAddresses(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("10.77.%d.%d", i/250, i%250+1))
	}
	slices.Sort(all)
	return all
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
// namespace, including those of the controller. The addresses that they set in `ips` are answered,
// as an administrator's are, and what they take from the controller does not return.
func TestWritersOfImportsHaveEveryName(t *testing.T) {
	s := newTenants(t)
	tenant := s.tenant("c1", "view", importsToo)
	for _, name := range []string{"answered", "taken", "karmadas"} {
		s.Export("c2", world.Service(name), "10.9.2.1")
		s.answersOfImport(name)
		s.Until("its endpoints", func() error { return s.leads("c1", labelLeadsTo, "derived-"+name, "10.9.2.1") })
	}
	for name, patch := range map[string]string{
		"answered": `{"spec":{"ips":["192.0.2.66"]}}`,
		"taken":    `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`,
		"karmadas": `{"metadata":{"labels":{"karmada.io/managed":"true"}}}`,
	} {
		s.Must(s.patch(tenant, of(s, world.Import(name, mcsv1beta1.ClusterSetIP)), patch))
	}
	s.answers("answered", "NOERROR 192.0.2.66")
	empty := func() error {
		return errors.Join(s.leads("c1", labelLeadsTo, "derived-taken"), s.leads("c1", labelLeadsTo, "derived-karmadas"))
	}
	s.Until("no endpoints are left", empty)
	s.settled()
	s.Check(errors.Join(s.answered("answered", "NOERROR 192.0.2.66"), empty()))
}
