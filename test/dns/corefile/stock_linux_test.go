package corefile

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/controlplane"
)

const anImport = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: foo}
spec: {type: ClusterSetIP, ips: [10.0.0.77], ports: [{name: http, port: 80, protocol: TCP}]}
`

const aHeadlessImport = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: db}
spec: {type: Headless, ports: [{name: sql, port: 5432, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: db-member1
  labels: {multicluster.kubernetes.io/service-name: db, multicluster.kubernetes.io/source-cluster: member1}
addressType: IPv4
endpoints: [{addresses: [10.1.0.5], hostname: db-0}]
ports: [{name: sql, port: 5432, protocol: TCP}]
`

const aLocalService = `
apiVersion: v1
kind: Service
metadata: {name: local}
spec: {clusterIP: 10.0.0.100, ports: [{name: http, port: 80}]}
`

// aLocalFoo has the import's name.
const aLocalFoo = `
apiVersion: v1
kind: Service
metadata: {name: foo}
spec: {clusterIP: 10.0.0.101, ports: [{name: http, port: 80}]}
`

const (
	foo = "foo.default.svc.clusterset.local."
	db  = "db.default.svc.clusterset.local."
)

// TestStockCorefileWithOurLine runs one server, as kubeadm would, for all of its parts.
func TestStockCorefileWithOurLine(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := testStock(t, "stock", func(text string) string { return replaced(t, text, "\n    multicluster clusterset.local\n", "\n") }, testImports)
		t.Run("submariner-operator#3218: a big headless answer", func(t *testing.T) { testBigHeadless(t, c) })
		t.Run("the search path in glibc", func(t *testing.T) { testSearchPath(t, c) })
	})
}

// testStock runs a server with an example of a stock Corefile. It compares all other names with the same Corefile without the zone of
// imports, which the function removes. Until the end of the test, no name of the zone leaves the cluster.
func testStock(t *testing.T, name string, without func(text string) string, imports func(*testing.T)) *controlplane.Cluster {
	t.Helper()
	c := controlplane.New(t, controlplane.Options{})
	installCRDs(t, c)
	asClusterCoreDNS(t, c)
	outside := startUpstream(t)
	t.Cleanup(func() {
		if leaked := outside.leaked(); len(leaked) > 0 {
			t.Errorf("clusterset names went upstream: %v", leaked)
		}
	})
	apply(t, c, anImport)
	apply(t, c, aHeadlessImport)
	apply(t, c, aLocalService)
	before := clusterAnswers(t, c, temporary(t, without(read(t, example(name)))))
	start(t, c, "53", example(name))
	getsReady(t)
	t.Run("imports are answered", imports)
	t.Run("D3: cluster.local and all else is as without the zone", func(t *testing.T) {
		if diff := cmp.Diff(before, allAnswers(t)); diff != "" {
			t.Error(diff)
		}
	})
	return c
}

// TestStockCorefileInTree: CoreDNS' own plugin kubernetes answers imports, as an account with the rights that this project gives it. Ours
// has no line in the Corefile.
func TestStockCorefileInTree(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		without := func(text string) string {
			return replaced(t, replaced(t, text, "\n        multicluster clusterset.local\n", "\n"), " clusterset.local in-addr", " in-addr")
		}
		c := testStock(t, "stock-intree", without, func(t *testing.T) {
			testRecords(t)
			// Other than ours: the version is that of the cluster's own zone, and the TTL that of `kubernetes`.
			wants(t, "dns-version.clusterset.local.", dns.TypeTXT, `NOERROR "1.1.0"`)
			if m, err := exchange("udp", "53", foo, dns.TypeA); err != nil || m.Answer[0].Header().Ttl <= 5 {
				t.Errorf("%v, %v", m, err)
			}
		})
		t.Run("a removed import", func(t *testing.T) {
			kubectl(t, c, "delete", "serviceimport", "foo", "--namespace", "default")
			controlplane.Eventually(t, "its name is gone", func() error {
				m, err := exchange("udp", "53", foo, dns.TypeA)
				if err == nil && m.Rcode != dns.RcodeNameError {
					err = fmt.Errorf("%s", short(m))
				}
				return err
			})
		})
	})
}

// TestStockCorefileInTreeWithoutCRDs: without the CRDs, CoreDNS' own plugin knows no name that does not exist, of any of its zones. docs/choose-dns.md warns.
func TestStockCorefileInTreeWithoutCRDs(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		asClusterCoreDNS(t, c)
		startUpstream(t)
		start(t, c, "53", example("stock-intree"))
		wants(t, "kubernetes.default.svc.cluster.local.", dns.TypeA, "NOERROR 10.0.0.1")
		wants(t, "nobody.default.svc.cluster.local.", dns.TypeA, "SERVFAIL")
		if code, err := ready(); err != nil || code == http.StatusOK {
			t.Errorf("the server is ready without the CRDs: %d, %v", code, err)
		}
		installCRDs(t, c)
		getsReady(t)
		wants(t, "nobody.default.svc.cluster.local.", dns.TypeA, "NXDOMAIN")
	})
}

func testImports(t *testing.T) {
	testRecords(t)
	wants(t, "dns-version.clusterset.local.", dns.TypeTXT, `NOERROR "1.0.0"`)
}

// testRecords asks for what each plugin that has the zone answers.
func testRecords(t *testing.T) {
	t.Helper()
	wants(t, foo, dns.TypeA, "NOERROR 10.0.0.77")
	wants(t, foo, dns.TypeAAAA, "NOERROR")
	wants(t, "_http._tcp."+foo, dns.TypeSRV, "NOERROR 0 100 80 "+foo)
	wants(t, db, dns.TypeA, "NOERROR 10.1.0.5")
	wants(t, "db-0.member1."+db, dns.TypeA, "NOERROR 10.1.0.5")
	wants(t, "_sql._tcp."+db, dns.TypeSRV, "NOERROR 0 100 5432 db-0.member1."+db)
	wants(t, "bar.default.svc.clusterset.local.", dns.TypeA, "NXDOMAIN")
	wants(t, "local.default.svc.clusterset.local.", dns.TypeA, "NXDOMAIN")
}

// clusterAnswers is what a server with a Corefile says to all questions but those for imports.
func clusterAnswers(t *testing.T, c *controlplane.Cluster, corefile string) map[string]string {
	t.Helper()
	coredns := start(t, c, "53", corefile)
	defer coredns.Stop()
	getsReady(t)
	return allAnswers(t)
}

// allAnswers returns the answers to questions that the plugin must not change.
func allAnswers(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{
		"local.default.svc.cluster.local.", "_http._tcp.local.default.svc.cluster.local.", "foo.default.svc.cluster.local.",
		"kubernetes.default.svc.cluster.local.", "default.svc.cluster.local.", "svc.cluster.local.", "cluster.local.",
		"10-1-2-3.default.pod.cluster.local.", "dns-version.cluster.local.", "ns.dns.cluster.local.",
		"100.0.0.10.in-addr.arpa.", "77.0.0.10.in-addr.arpa.", "1.2.0.192.in-addr.arpa.",
		"www.example.org.", "nowhere.example.org.", "clusterset.local.example.org.", "local.",
	} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeTXT, dns.TypeSOA, dns.TypeNS} {
			m, err := exchange("udp", "53", name, qtype)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all[name+" "+dns.TypeToString[qtype]] = whole(m)
		}
	}
	// That it is as before means something only where it is something.
	for question, want := range map[string]string{
		"local.default.svc.cluster.local. A": "10.0.0.100", "100.0.0.10.in-addr.arpa. PTR": "local.default.svc.cluster.local.",
		"www.example.org. A": "192.0.2.1", "1.2.0.192.in-addr.arpa. PTR": "www.example.org.", "foo.default.svc.cluster.local. A": "NXDOMAIN",
	} {
		if !strings.Contains(all[question], want) {
			t.Errorf("%s: %s; want %s", question, all[question], want)
		}
	}
	return all
}

func testBigHeadless(t *testing.T, c *controlplane.Cluster) {
	const count = 200
	var endpoints, want []string
	for i := range count {
		ip := fmt.Sprintf("10.2.0.%d", i+1)
		endpoints, want = append(endpoints, fmt.Sprintf("{addresses: [%s]}", ip)), append(want, ip)
	}
	apply(t, c, fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: big-member1
  labels: {multicluster.kubernetes.io/service-name: big, multicluster.kubernetes.io/source-cluster: member1}
addressType: IPv4
endpoints: [%s]
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: big}
spec: {type: Headless, ports: []}
`, strings.Join(endpoints, ", ")))
	const big = "big.default.svc.clusterset.local."
	controlplane.Eventually(t, "a whole answer over TCP", func() error {
		m, err := exchange("tcp", "53", big, dns.TypeA)
		if err != nil {
			return err
		}
		slices.Sort(want)
		if got := strings.Fields(short(m)); m.Truncated || !slices.Equal(got[1:], want) {
			return fmt.Errorf("%s with %d records", got[0], len(got)-1)
		}
		return nil
	})
	m, err := exchange("udp", "53", big, dns.TypeA)
	if err != nil {
		t.Fatal(err)
	}
	m.Compress = true // as it came
	if !m.Truncated || m.Len() > dns.MinMsgSize || len(m.Answer) == 0 {
		t.Errorf("over UDP %d records, in %d bytes, truncated %t; want a truncated part of at most 512 bytes", len(m.Answer), m.Len(), m.Truncated)
	}
}

// TestAutopath: pods whose resolver knows nothing of clusterset.local find imports, and all else as before.
func TestAutopath(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		asClusterCoreDNS(t, c)
		startUpstream(t)
		apply(t, c, anImport)
		text := replaced(t, read(t, example("autopath")), "    cache 30 {", "    cache 30 example.org {") // so that a change is seen at once
		start(t, c, "53", temporary(t, text))
		getsReady(t)
		testSearch(t, c, "default.svc.cluster.local svc.cluster.local cluster.local")

		// One question replaces the whole search: the first name that the resolver asks for gets
		// the import's address.
		m, err := exchange("udp", "53", "foo.default.svc.app.svc.cluster.local.", dns.TypeA)
		if err != nil {
			t.Fatal(err)
		}
		if got := short(m); got != "NOERROR 10.0.0.77 foo.default.svc.clusterset.local." {
			t.Errorf("got %s", got)
		}
		if got := getent(t, "www.example.org"); got != "192.0.2.1" {
			t.Errorf("www.example.org is %s", got)
		}
	})
}

// testSearchPath has clusterset.local in the pod's own search path.
func testSearchPath(t *testing.T, c *controlplane.Cluster) {
	testSearch(t, c, "default.svc.cluster.local svc.cluster.local cluster.local clusterset.local")
}

// testSearch resolves as glibc does with a search path: the local Service where it is, else the import.
func testSearch(t *testing.T, c *controlplane.Cluster, search string) {
	asClientOf(t, search)
	resolves(t, "foo.default.svc", "10.0.0.77")
	resolves(t, "foo.default.svc.clusterset.local", "10.0.0.77")
	apply(t, c, aLocalFoo)
	resolves(t, "foo.default.svc", "10.0.0.101")
	resolves(t, "foo", "10.0.0.101")
	resolves(t, "foo.default.svc.clusterset.local", "10.0.0.77")
	remove(t, c, aLocalFoo)
	resolves(t, "foo.default.svc", "10.0.0.77")
	if status, err := ready(); err != nil || status != http.StatusOK {
		t.Errorf("ready is %d, %v", status, err)
	}
}

// resolves waits until a program gets that address for a name.
func resolves(t *testing.T, name, want string) {
	t.Helper()
	controlplane.Eventually(t, name+" is "+want, func() error {
		if got := getent(t, name); got != want {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}
