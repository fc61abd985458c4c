package dns

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// aLocalFoo has the import's name.
const aLocalFoo = `
apiVersion: v1
kind: Service
metadata: {name: foo}
spec: {clusterIP: 10.96.0.101, ports: [{name: http, port: 80}]}
`

// endpoints are those of aLocalFoo, ready or not. It has none without them.
func endpoints(ready bool) string {
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: local-foo, labels: {kubernetes.io/service-name: foo}}
addressType: IPv4
endpoints: [{addresses: [10.99.0.5], conditions: {ready: %t}}]
ports: [{name: http, port: 80, protocol: TCP}]
`, ready)
}

// uncached is a Corefile whose cache keeps nothing of the cluster's, so that a change is seen at once.
func uncached(corefile string) string {
	return edited(corefile, "    cache 30 {", "    cache 30 example.org {")
}

// stockAlone is the stock Corefile without our line.
func stockAlone() string {
	return edited(example("stock"), "\n    multicluster clusterset.local\n", "\n")
}

// TestStockCorefileWithOurLine runs one server, as kubeadm would, for all of its parts.
func TestStockCorefileWithOurLine(t *testing.T) {
	inNetwork(t, func(w *world) {
		before := w.otherAnswers(stockAlone())
		w.coreDNS(example("stock"))
		w.run("imports are answered", (*world).hasImports)
		w.run("the zone cannot be listed", func(w *world) {
			for _, qtype := range []string{"AXFR", "IXFR"} {
				w.must(resolver.Differs("tcp", w.address, "clusterset.local. "+qtype, "REFUSED"))
			}
		})
		w.run("D3: cluster.local and all else is as without the zone", func(w *world) { w.hasStill(before) })
		// The local Service where it is, else the import.
		w.run("the search path in glibc", func(w *world) {
			w.findsFoo(podSearch + " clusterset.local")
		})
		w.run("what was known is served on in an outage, by a server that stays ready", testOutage)
	})
}

// TestStockCorefileInTree: CoreDNS' own plugin kubernetes answers imports, as an account with the rights that this project gives it. Ours
// has no line in the Corefile. It waits for `cache 30`.
func TestStockCorefileInTree(t *testing.T) {
	t.Parallel()
	inNetwork(t, func(w *world) {
		w.ownNamespace()
		w.apply(anImport)
		before := w.otherAnswers(edited(example("stock-intree"), "\n        multicluster clusterset.local\n", "\n", " clusterset.local in-addr", " in-addr"))
		w.coreDNS(example("stock-intree"))
		w.run("imports are answered", func(w *world) {
			w.hasRecords()
			// Other than ours: the version is that of the cluster's own zone, and the TTL that of `kubernetes`.
			w.wants("dns-version.clusterset.local. TXT", `NOERROR "1.1.0"`)
			if m := w.ask(foo + " A"); m.Answer[0].Header().Ttl <= 5 {
				w.Error(m)
			}
		})
		w.run("D3: cluster.local and all else is as without the zone", func(w *world) { w.hasStill(before) })
		w.run("a removed import", func(w *world) {
			w.wants(w.imported("foo")+" A", "NOERROR 10.0.0.77")
			w.remove(anImport)
			w.wants(w.imported("foo")+" A", "NXDOMAIN")
		})
	})
}

// hasImports asks for what our plugin answers of the fixtures.
func (w *world) hasImports() {
	w.Helper()
	w.hasRecords()
	w.wants("dns-version.clusterset.local. TXT", `NOERROR "1.0.0"`)
}

// hasRecords asks for what each plugin that has the zone answers.
func (w *world) hasRecords() {
	w.Helper()
	w.wants(foo+" A", "NOERROR 10.0.0.77")
	w.wants(foo+" AAAA", "NOERROR")
	w.wants("_http._tcp."+foo+" SRV", "NOERROR 0 100 80 "+foo)
	w.wants(db+" A", "NOERROR 10.1.0.5")
	w.wants("db-0.member1."+db+" A", "NOERROR 10.1.0.5")
	w.wants("_sql._tcp."+db+" SRV", "NOERROR 0 100 5432 db-0.member1."+db)
	w.wants(absent+" A", "NXDOMAIN")
	w.wants("local.default.svc.clusterset.local. A", "NXDOMAIN")
}

// otherAnswers is what a server with a Corefile says to all questions but those for imports.
func (w *world) otherAnswers(corefile string) map[string]string {
	w.Helper()
	p := w.coreDNS(corefile)
	defer p.Stop()
	return w.allAnswers()
}

func (w *world) hasStill(before map[string]string) {
	w.Helper()
	if diff := cmp.Diff(before, w.allAnswers()); diff != "" {
		w.Error(diff)
	}
}

// allAnswers returns the answers to questions that the plugin must not change.
func (w *world) allAnswers() map[string]string {
	w.Helper()
	all := map[string]string{}
	for _, name := range []string{
		local, "_http._tcp." + local, localFoo,
		"kubernetes.default.svc.cluster.local.", "default.svc.cluster.local.", "svc.cluster.local.", "cluster.local.",
		"10-1-2-3.default.pod.cluster.local.", "dns-version.cluster.local.", "ns.dns.cluster.local.",
		"100.0.96.10.in-addr.arpa.", "77.0.0.10.in-addr.arpa.", "1.2.0.192.in-addr.arpa.",
		outside, "nowhere.example.org.", "clusterset.local.example.org.", "local.",
	} {
		for _, qtype := range []string{" A", " AAAA", " SRV", " PTR", " TXT", " SOA", " NS"} {
			all[name+qtype] = whole(w.ask(name + qtype))
		}
	}
	// That it is as before means something only where it is something.
	for question, want := range map[string]string{
		local + " A": "10.96.0.100", "100.0.96.10.in-addr.arpa. PTR": local, outside + " A": "192.0.2.1", "1.2.0.192.in-addr.arpa. PTR": outside, localFoo + " A": "NXDOMAIN",
	} {
		if !strings.Contains(all[question], want) {
			w.Errorf("%s: %s; want %s", question, all[question], want)
		}
	}
	return all
}

// findsFoo resolves as glibc does with a search path.
func (w *world) findsFoo(search string) {
	w.Helper()
	w.searches(search)
	w.resolves("foo.default.svc", "10.0.0.77")
	w.resolves("foo.default.svc.clusterset.local", "10.0.0.77")
	w.apply(aLocalFoo)
	w.resolves("foo.default.svc", "10.96.0.101")
	w.resolves("foo", "10.96.0.101")
	w.resolves("foo.default.svc.clusterset.local", "10.0.0.77")
	w.remove(aLocalFoo)
	w.resolves("foo.default.svc", "10.0.0.77")
	w.readyIs(http.StatusOK)
}

// TestAutopath: pods whose resolver knows nothing of clusterset.local find imports, and all else as before.
func TestAutopath(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.coreDNS(uncached(example("autopath")))
		w.findsFoo(podSearch)
		// One question replaces the whole search: the first name that the resolver asks for gets the import's address.
		if got := resolver.Short(w.ask("foo.default.svc.example.svc.cluster.local. A")); got != "NOERROR 10.0.0.77 foo.default.svc.clusterset.local." {
			w.Errorf("got %s", got)
		}
		if got := w.getent("www.example.org"); got != "192.0.2.1" {
			w.Errorf("www.example.org is %s", got)
		}
	})
}

// TestWithoutCRDs: a cluster without the CRDs keeps its cluster DNS, and there are no imports. They are answered as soon as the CRDs come.
func TestWithoutCRDs(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.withoutCRDs()
		w.coreDNS(example("stock"))
		w.wants(foo+" A", "NXDOMAIN")
		w.wants(local+" A", "NOERROR 10.96.0.100")
		w.wants(outside+" A", "NOERROR 192.0.2.1")
		w.must(w.cluster.InstallCRDs(w.Context(), kube.BothVersions))
		w.apply(anImport)
		w.wants(foo+" A", "NOERROR 10.0.0.77")
	})
}

// TestStockCorefileInTreeWithoutCRDs: without the CRDs, CoreDNS' own plugin knows no name that does not exist, of any of its zones.
// docs/choose-dns.md warns.
func TestStockCorefileInTreeWithoutCRDs(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.withoutCRDs()
		w.start(example("stock-intree"))
		w.wants("kubernetes.default.svc.cluster.local. A", "NOERROR 10.96.0.1")
		w.wants("nobody.default.svc.cluster.local. A", "SERVFAIL")
		w.readyIs(http.StatusServiceUnavailable)
		w.must(w.cluster.InstallCRDs(w.Context(), kube.BothVersions))
		w.getsReady()
		w.wants("nobody.default.svc.cluster.local. A", "NXDOMAIN")
	})
}

// withoutCRDs removes the CRDs, with all imports, until the end of the test.
func (w *world) withoutCRDs() {
	w.Helper()
	w.changes(anImport)
	w.Cleanup(func() {
		if err := w.cluster.InstallCRDs(context.WithoutCancel(w.Context()), kube.BothVersions); err != nil {
			w.Error(err)
		}
	})
	w.must(w.cluster.RemoveCRDs(w.Context()))
}
