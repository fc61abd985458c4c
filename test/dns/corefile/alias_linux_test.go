package corefile

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

const (
	localFoo = "foo.default.svc.cluster.local."
	localDB  = "db.default.svc.cluster.local."
)

// endpoints are those of a local Service, ready or not. It has none without them: no endpoint controller runs here.
func endpoints(service string, ready bool) string {
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: local-%[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
endpoints: [{addresses: [10.99.0.5], conditions: {ready: %[2]t}}]
ports: [{name: http, port: 80, protocol: TCP}]
`, service, ready)
}

// TestAlias runs one server, with the kubernetes plugin before ours, for all that a name under cluster.local can be.
func TestAlias(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		asClusterCoreDNS(t, c)
		outside := startUpstream(t)
		apply(t, c, aHeadlessImport)
		apply(t, c, aLocalService)
		apply(t, c, endpoints("local", true))

		before := clusterAnswers(t, c, temporary(t, withoutAlias(t, read(t, example("alias")))))
		start(t, c, "53", example("alias"))
		getsReady(t)
		t.Run("D3: what kubernetes has is as without alias", func(t *testing.T) { testDenials(t, before, allAnswers(t)) })
		apply(t, c, anImport)
		t.Run("clusterset.local is as without alias", testImports)
		t.Run("multicluster#15, lighthouse#2197: imports under cluster.local", testImportsAsLocal)
		t.Run("remote where the local one is absent or unavailable", func(t *testing.T) { testFailover(t, c) })
		t.Run("names go nowhere else", func(t *testing.T) { testNothingLeaks(t, outside) })
	})
}

func withoutAlias(t *testing.T, text string) string {
	t.Helper()
	text = replaced(t, text, "multicluster clusterset.local {\n        alias cluster.local\n    }\n", "multicluster clusterset.local\n")
	return replaced(t, text, "fallthrough cluster.local ", "fallthrough ")
}

// testDenials compares all answers with those before. What cluster.local does not have is denied by us now, with the SOA record of the
// kubernetes plugin. Where that plugin denies a name that exists, as it has no record of the type, we do not.
func testDenials(t *testing.T, before, after map[string]string) {
	for _, question := range []string{
		"cluster.local. TXT", "svc.cluster.local. TXT", "default.svc.cluster.local. TXT", "ns.dns.cluster.local. TXT", "ns.dns.cluster.local. PTR",
	} {
		before[question] = strings.Replace(before[question], "NXDOMAIN", "NOERROR", 1)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

// testImportsAsLocal is testImports under the cluster's own domain.
func testImportsAsLocal(t *testing.T) {
	wants(t, localFoo, dns.TypeA, "NOERROR 10.0.0.77")
	wants(t, localFoo, dns.TypeAAAA, "NOERROR")
	wants(t, "_http._tcp."+localFoo, dns.TypeSRV, "NOERROR 0 100 80 "+localFoo)
	wants(t, localDB, dns.TypeA, "NOERROR 10.1.0.5")
	wants(t, "db-0.member1."+localDB, dns.TypeA, "NOERROR 10.1.0.5")
	wants(t, "_sql._tcp."+localDB, dns.TypeSRV, "NOERROR 0 100 5432 db-0.member1."+localDB)
	wants(t, "dns-version.cluster.local.", dns.TypeTXT, `NOERROR "1.1.0"`) // of the kubernetes plugin
	for _, name := range []string{
		"bar.default.svc.cluster.local.", "foo.nowhere.svc.cluster.local.", "db-1.member1." + localDB, "foo.default.cluster.local.", "www.example.org.cluster.local.",
	} {
		wantsDenial(t, name)
	}
}

// wantsDenial: a negative answer has the SOA record of the cluster's own zone, whichever plugin
// made it.
func wantsDenial(t *testing.T, name string) {
	t.Helper()
	wants(t, name, dns.TypeA, "NXDOMAIN")
	m, err := exchange("udp", "53", name, dns.TypeA)
	if err != nil || len(m.Ns) != 1 || m.Ns[0].Header().Rrtype != dns.TypeSOA || m.Ns[0].Header().Name != "cluster.local." {
		t.Errorf("%s: %v with the authority %v; want the SOA record of cluster.local", name, err, m.Ns)
	}
}

// testFailover is the known fault "Remote only if local does not exist": a local Service without
// endpoints answers forever, and no search suffix helps. With `ignore empty_service` it does not.
func testFailover(t *testing.T, c *controlplane.Cluster) {
	for _, step := range []struct {
		what, change, want string
	}{
		{"no local Service", "", "NOERROR 10.0.0.77"},
		{"one without endpoints", aLocalFoo, "NOERROR 10.0.0.77"},
		{"one with an endpoint that is not ready", endpoints("foo", false), "NOERROR 10.0.0.77"},
		{"it becomes ready", endpoints("foo", true), "NOERROR 10.0.0.101"},
		{"it is not ready any more", endpoints("foo", false), "NOERROR 10.0.0.77"},
		{"it is ready again", endpoints("foo", true), "NOERROR 10.0.0.101"},
	} {
		t.Log(step.what)
		apply(t, c, step.change)
		if step.change == aLocalFoo {
			wants(t, "101.0.0.10.in-addr.arpa.", dns.TypePTR, "NOERROR "+localFoo) // so kubernetes knows it
		}
		wants(t, localFoo, dns.TypeA, step.want)
		wants(t, foo, dns.TypeA, "NOERROR 10.0.0.77")
	}
	wants(t, localFoo, dns.TypeAAAA, "NOERROR")
	wants(t, "_http._tcp."+localFoo, dns.TypeSRV, "NOERROR 0 100 80 "+localFoo)
	remove(t, c, aLocalFoo)
	wants(t, localFoo, dns.TypeA, "NOERROR 10.0.0.77")
	remove(t, c, anImport)
	wantsDenial(t, localFoo)
	remove(t, c, endpoints("foo", true))
}

func testNothingLeaks(t *testing.T, outside *upstream) {
	if leaked := append(outside.leaked(), outside.askedBelow("cluster.local.")...); len(leaked) > 0 {
		t.Errorf("the cluster's names went upstream: %v", leaked)
	}
}

// TestAliasOfEmptyServices is the other choice, without `ignore empty_service`: a local Service keeps its name while it exists.
func TestAliasOfEmptyServices(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		asClusterCoreDNS(t, c)
		startUpstream(t)
		apply(t, c, strings.Replace(anImport, "[10.0.0.77]", `[10.0.0.77, "fd00::77"]`, 1))
		start(t, c, "53", temporary(t, replaced(t, read(t, example("alias")), "        ignore empty_service\n", "")))
		getsReady(t)
		wants(t, localFoo, dns.TypeA, "NOERROR 10.0.0.77")
		wants(t, localFoo, dns.TypeAAAA, "NOERROR fd00::77")
		apply(t, c, aLocalFoo)
		wants(t, localFoo, dns.TypeA, "NOERROR 10.0.0.101")
		wants(t, localFoo, dns.TypeAAAA, "NOERROR") // not the import's: two families of one name are one Service
		remove(t, c, aLocalFoo)
		wants(t, localFoo, dns.TypeA, "NOERROR 10.0.0.77")
		wants(t, localFoo, dns.TypeAAAA, "NOERROR fd00::77")
	})
}

// TestEmptyServicesOnTheSearchPath is the same row for the ways that leave cluster.local alone.
func TestEmptyServicesOnTheSearchPath(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		asClusterCoreDNS(t, c)
		startUpstream(t)
		apply(t, c, anImport)
		apply(t, c, aLocalFoo)
		const untouched = "default.svc.cluster.local svc.cluster.local cluster.local"
		for name, search := range map[string]string{"stock": untouched + " clusterset.local", "autopath": untouched} {
			t.Run(name, func(t *testing.T) {
				text := replaced(t, read(t, example(name)), "        pods insecure\n", "        pods insecure\n        ignore empty_service\n")
				apply(t, c, endpoints("foo", true))
				start(t, c, "53", temporary(t, text))
				getsReady(t)
				asClientOf(t, search)
				resolves(t, "foo.default.svc", "10.0.0.101")
				apply(t, c, endpoints("foo", false))
				resolves(t, "foo.default.svc", "10.0.0.77")
				apply(t, c, endpoints("foo", true))
				resolves(t, "foo.default.svc", "10.0.0.101")
			})
		}
	})
}

// TestAliasWithoutAPIServer: names that neither plugin knows yet are SERVFAIL, and are not
// forwarded.
func TestAliasWithoutAPIServer(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		asClusterCoreDNS(t, c)
		outside := startUpstream(t)
		apply(t, c, anImport)
		c.StopAPIServer()
		start(t, c, "53", example("alias"))
		wants(t, "www.example.org.", dns.TypeA, "NOERROR 192.0.2.1")
		for _, name := range []string{foo, localFoo, "www.example.org.cluster.local."} {
			wants(t, name, dns.TypeA, "SERVFAIL")
		}
		if err := c.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		getsReady(t)
		wants(t, localFoo, dns.TypeA, "NOERROR 10.0.0.77")
		testNothingLeaks(t, outside)
	})
}

// TestAliasWithoutRights is what the example warns of. Rights that come later are enough, without a restart.
func TestAliasWithoutRights(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		apply(t, c, binaries.KubeadmRights)
		asPod(t, c, "kube-system", "coredns")
		outside := startUpstream(t)
		apply(t, c, anImport)
		apply(t, c, aLocalService)
		apply(t, c, endpoints("local", true))
		start(t, c, "53", example("alias"))
		wants(t, "local.default.svc.cluster.local.", dns.TypeA, "NOERROR 10.0.0.100")
		wants(t, "www.example.org.", dns.TypeA, "NOERROR 192.0.2.1")
		for _, name := range []string{localFoo, "www.example.org.cluster.local."} {
			wants(t, name, dns.TypeA, "SERVFAIL")
		}
		kubectl(t, c, "apply", "-k", "deploy/plugin/cluster-coredns")
		wants(t, localFoo, dns.TypeA, "NOERROR 10.0.0.77")
		wantsDenial(t, "www.example.org.cluster.local.")
		testNothingLeaks(t, outside)
	})
}

// TestAliasOnASecondServer: the cluster's own server does not have the plugin. It forwards names
// that its kubernetes plugin does not have to a second server, which forwards nothing.
func TestAliasOnASecondServer(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{ServiceCIDRs: "10.96.0.0/24"})
		installCRDs(t, c)
		if err := c.StartKubeProxy(t.Context()); err != nil {
			t.Fatal(err)
		}
		apply(t, c, anImport)
		apply(t, c, aHeadlessImport)
		outside := startUpstream(t)
		testOverlay(t, c)
		second := startSecondServer(t, c, temporary(t, withoutPorts(t, read(t, example("alias-second-server")))))
		apply(t, c, binaries.KubeadmRights)
		asPod(t, c, "kube-system", "coredns")
		start(t, c, "53", example("alias-forwarding"))
		getsReady(t)

		t.Run("clusterset.local", testImports)
		t.Run("imports under cluster.local", testImportsAsLocal)
		t.Run("the first server's own names", func(t *testing.T) {
			apply(t, c, strings.Replace(aLocalService, "10.0.0.100", "10.96.0.100", 1))
			apply(t, c, endpoints("local", true))
			wants(t, "local.default.svc.cluster.local.", dns.TypeA, "NOERROR 10.96.0.100")
			m, err := exchange("udp", "53", "cluster.local.", dns.TypeSOA)
			if err != nil || len(m.Answer) != 1 || m.Answer[0].Header().Ttl != 30 {
				t.Errorf("%v: %v; want the SOA record of the kubernetes plugin", err, m)
			}
		})
		t.Run("a question is asked once at each", func(t *testing.T) { testNoLoop(t) })
		t.Run("names go nowhere else", func(t *testing.T) { testNothingLeaks(t, outside) })
		t.Run("without the second", func(t *testing.T) { testWithoutSecond(t, second) })
	})
}

// testOverlay: what the example says of deploy/plugin/server is true.
func testOverlay(t *testing.T, c *controlplane.Cluster) {
	t.Helper()
	text := read(t, example("alias-second-server"))
	generator := "configMapGenerator: [{name: multicluster-dns, namespace: multicluster-dns, behavior: replace, files: [Corefile]}]"
	if !strings.Contains(text, generator) {
		t.Fatalf("the example does not say %s", generator)
	}
	overlay := t.TempDir()
	base, err := filepath.Rel(overlay, filepath.Join(binaries.Root(), "deploy/plugin/server"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(overlay, "kustomization.yaml"), "resources: ["+base+"]\n"+generator+"\n")
	write(t, filepath.Join(overlay, "Corefile"), text)
	rendered := kubectl(t, c, "kustomize", overlay)
	if !strings.Contains(rendered, "    clusterset.local cluster.local {\n") || strings.Count(rendered, "name: multicluster-dns-") > 0 {
		t.Errorf("the overlay is\n%s", rendered)
	}
}

// testNoLoop counts the questions that arrive for names that the first server does not have.
func testNoLoop(t *testing.T) {
	first, second := doorOf(t, server, 53), doorOf(t, secondIP, 1053)
	for _, name := range []string{localFoo, "bar.default.svc.cluster.local.", "www.example.org.default.svc.cluster.local."} {
		if _, err := exchange("udp", "53", name, dns.TypeA); err != nil {
			t.Fatal(err)
		}
		want := []dns.Question{{Name: name, Qtype: dns.TypeA, Qclass: dns.ClassINET}}
		if diff := cmp.Diff([][]dns.Question{want, want}, [][]dns.Question{first.questions(t), second.questions(t)}); diff != "" {
			t.Error(diff)
		}
	}
}

// testWithoutSecond: a name that only the second knows is an error and no denial, and the rest of the world is found all the same.
func testWithoutSecond(t *testing.T, second *controlplane.Beside) {
	second.Stop()
	wants(t, localFoo, dns.TypeA, "SERVFAIL")
	wants(t, "local.default.svc.cluster.local.", dns.TypeA, "NOERROR 10.96.0.100")
	asClientOf(t, "default.svc.cluster.local svc.cluster.local cluster.local")
	for name, want := range map[string]string{"www.example.org": "192.0.2.1", "local": "10.96.0.100"} {
		if got := getent(t, name); got != want {
			t.Errorf("%s is %s; want %s", name, got, want)
		}
	}
}
