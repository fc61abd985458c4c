package rules

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// outside is what the rest of the world answers.
var outside = map[string]string{"github.com.": "192.0.2.2", "api.github.svc.": "192.0.2.3", "www.example.": "192.0.2.4"}

// serves runs a cluster's own CoreDNS until the test's end: the cluster's zones, imports, and the rest of the world.
func (s *tenants) serves(autopath, alias bool) (address string) {
	s.Helper()
	text := `
.:{{.Port}} {
    bind 127.0.0.1
    errors
    log
    AUTOPATH
    kubernetes cluster.local {
        kubeconfig {{.Kubeconfig}}
        fallthrough
    }
    multicluster clusterset.local {
        kubeconfig {{.Kubeconfig}}
        ALIAS
    }
    forward . UPSTREAM
}`
	with := map[bool]string{true: "autopath @multicluster"}[autopath]
	as := map[bool]string{true: "alias cluster.local"}[alias]
	free, err := kube.FreePort()
	s.Must(err)
	port := strconv.Itoa(free)
	var records []string
	for name, ip := range outside {
		records = append(records, name+" 5 IN A "+ip)
	}
	resolver.NewUpstream(s.TB, "127.0.0.1", port, records...)
	text = strings.NewReplacer("AUTOPATH", with, "ALIAS", as, "UPSTREAM", "127.0.0.1:"+port).Replace(text)
	b, address, err := binaries.StartCoreDNS(s.Context(), s.Cluster("c1").Cluster, "coredns", text)
	s.Must(err)
	s.Cleanup(b.Stop)
	s.Cleanup(func() {
		if s.Failed() {
			log, _ := os.ReadFile(b.Log())
			s.Logf("CoreDNS says\n%s", log)
		}
	})
	return address
}

// called makes a namespace of a chosen name in c1, with a tenant with permission to write imports in it.
func (s *tenants) called(name string) (tenant client.Client, theirs *tenants) {
	s.Helper()
	theirs = &tenants{s.Called(name, "c1"), s.server}
	return theirs.tenant("c1", "view", importsToo), theirs
}

// lookup is what a pod of a namespace gets for a name with ndots:5 and these search entries after Kubernetes' own: the first that exists.
func lookup(server, name, namespace string, more ...string) (string, error) {
	config := dns.ClientConfig{Ndots: 5, Search: append([]string{namespace + ".svc.cluster.local", "svc.cluster.local", "cluster.local"}, more...)}
	for _, full := range config.NameList(name) {
		m, err := resolver.Ask("udp", server, full+" A")
		if err != nil || m.Rcode != dns.RcodeNameError {
			return resolver.Short(m), err
		}
	}
	return "NXDOMAIN", nil
}

// looksUp waits until a pod of the stage's namespace gets an answer.
func (s *tenants) looksUp(server, name, want string, more ...string) {
	s.Helper()
	s.Until("look up "+name, func() error {
		got, err := lookup(server, name, s.Name, more...)
		if err == nil && got != want {
			err = fmt.Errorf("%s is %q; want %q", name, got, want)
		}
		return err
	})
}

// TestImportsChangeNoOutsideName: with clusterset.local on the search path, or autopath, a name of the world cannot be taken by an
// import, as all imports' names end in svc. Not even in a namespace that is called like a top-level domain.
func TestImportsChangeNoOutsideName(t *testing.T) {
	s := newTenants(t)
	tenant, com := s.called("com")
	com.CreateAs(tenant, world.Import("github", mcsv1beta1.ClusterSetIP, "10.66.0.1"))
	own := s.serves(false, false)
	s.Until("the import is there", func() error {
		return resolver.Differs("udp", own, "github.com.svc.clusterset.local. A", "NOERROR 10.66.0.1")
	})
	for name, ip := range outside {
		s.looksUp(own, strings.TrimSuffix(name, "."), "NOERROR "+ip, "clusterset.local")
	}
	auto := s.serves(true, false)
	for name, ip := range outside {
		asked := strings.TrimSuffix(name, ".") + "." + s.Name + ".svc.cluster.local."
		s.Until("autopath for "+name, func() error { return resolver.Differs("udp", auto, asked+" A", "NOERROR "+ip+" "+name) }) // behind a CNAME
	}
	// Names that end in svc do not exist on the Internet, and the namespace before that belongs to
	// the tenant.
	s.looksUp(own, "github.com.svc", "NOERROR 10.66.0.1", "clusterset.local")
}

// TestSearchPathIsThePods: a suffix of the search path (dnsConfig) belongs to one pod. A pod with
// the suffix finds imports by it. Another pod in the namespace, without it, gets the same answers
// as before.
func TestSearchPathIsThePods(t *testing.T) {
	s := newTenants(t)
	s.Export("c2", world.Service("foo"), "10.9.2.1")
	vip := s.answersOfImport("foo")
	own := s.serves(false, false)
	name := "foo." + s.Name + ".svc"
	s.Create("c1", world.Import("local", mcsv1beta1.ClusterSetIP, "10.66.0.1"))
	local := world.Service("local")
	s.Create("c1", local)
	s.looksUp(own, name, "NOERROR "+vip, "clusterset.local")
	s.looksUp(own, "local", "NOERROR "+local.Spec.ClusterIP, "clusterset.local")
	for asked, want := range map[string]string{name: "NXDOMAIN", "local": "NOERROR " + local.Spec.ClusterIP, "github.com": "NOERROR 192.0.2.2"} {
		if got, err := lookup(own, asked, s.Name); err != nil || got != want {
			t.Errorf("a pod without the entry gets %q for %s: %v; want %q", got, asked, err, want)
		}
	}
}

// TestSvcOnTheSearchPathIsShared: if svc.clusterset.local is on the search path, or imports are in
// cluster.local by `alias`, a name of two labels is a Service and its namespace before it is a name
// on the Internet. Kubernetes' own search path, with svc.cluster.local, does the same for local
// Services: the owner of a namespace `example` owns www.example.
func TestSvcOnTheSearchPathIsShared(t *testing.T) {
	s := newTenants(t)
	tenant, example := s.called("example")
	example.CreateAs(tenant, world.Import("www", mcsv1beta1.ClusterSetIP, "10.66.0.1"))
	plain, alias := s.serves(false, false), s.serves(false, true)
	s.looksUp(plain, "www.example", "NOERROR 10.66.0.1", "svc.clusterset.local")
	s.looksUp(plain, "www.example", "NOERROR 192.0.2.4", "clusterset.local")
	s.looksUp(alias, "www.example", "NOERROR 10.66.0.1")
	s.looksUp(alias, "github.com", "NOERROR 192.0.2.2") // no such namespace exists

	local := world.Service("www")
	example.Create("c1", local) // without us, too
	s.looksUp(plain, "www.example", "NOERROR "+local.Spec.ClusterIP)
	s.looksUp(alias, "www.example", "NOERROR "+local.Spec.ClusterIP)
}

// TestAliasLeavesLocalServicesAlone (D3): an import does not take a local Service's name in cluster.local, in no namespace.
func TestAliasLeavesLocalServicesAlone(t *testing.T) {
	theirs, s := newTenants(t), newTenants(t)
	foo := world.Service("foo")
	theirs.Create("c1", foo)
	server := s.serves(true, true)
	local := func() error {
		return resolver.Differs("udp", server, "foo."+theirs.Name+".svc.cluster.local. A", "NOERROR "+foo.Spec.ClusterIP)
	}
	s.Until("the local Service", local)
	tenant := theirs.tenant("c1", "view", importsToo) // in that very namespace
	theirs.CreateAs(tenant, world.Import("foo", mcsv1beta1.ClusterSetIP, "10.66.0.1"), world.Import("derived-foo", mcsv1beta1.ClusterSetIP, "10.66.0.2"))
	theirs.answers("foo", "NOERROR 10.66.0.1")
	theirs.settled()
	s.Check(local())
}

// TestZoneCannotBeListed: without the plugin `transfer`, which has its own list of permitted
// servers, names cannot be listed.
func TestZoneCannotBeListed(t *testing.T) {
	s := newTenants(t)
	for _, qtype := range []string{"AXFR", "IXFR"} {
		s.Check(resolver.Differs("tcp", s.server, "clusterset.local. "+qtype, "REFUSED"))
	}
}

// written is the log of c1's CoreDNS.
func written() (string, error) {
	text, err := os.ReadFile(beside.coredns.Log())
	return string(text), err
}
