package dns

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// TestAlias runs one server, with the kubernetes plugin before ours, for all that a name under cluster.local can be.
func TestAlias(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.remove(anImport)
		before := w.otherAnswers(edited(example("alias"),
			"multicluster clusterset.local {\n        alias cluster.local\n    }\n", "multicluster clusterset.local\n", "fallthrough cluster.local ", "fallthrough "))
		w.coreDNS(example("alias"))
		w.run("D3: what kubernetes has is as without alias", func(w *world) { testDenials(w, before) })
		w.apply(anImport)
		w.run("clusterset.local is as without alias", (*world).hasImports)
		w.run("multicluster#15, lighthouse#2197: imports under cluster.local", (*world).hasImportsAsLocal)
		w.run("remote where the local one is absent or unavailable", testFailover)
	})
}

// testDenials compares all answers with those before. What cluster.local does not have is denied by us now, with the SOA record of the
// kubernetes plugin. Where that plugin denies a name that exists, as it has no record of the type, we do not.
func testDenials(w *world, before map[string]string) {
	for _, question := range []string{
		"cluster.local. TXT", "svc.cluster.local. TXT", "default.svc.cluster.local. TXT", "ns.dns.cluster.local. TXT", "ns.dns.cluster.local. PTR",
	} {
		before[question] = strings.Replace(before[question], "NXDOMAIN", "NOERROR", 1)
	}
	w.hasStill(before)
}

// hasImportsAsLocal is hasImports under the cluster's own domain.
func (w *world) hasImportsAsLocal() {
	w.Helper()
	w.wants(localFoo+" A", "NOERROR 10.0.0.77")
	w.wants(localFoo+" AAAA", "NOERROR")
	w.wants("_http._tcp."+localFoo+" SRV", "NOERROR 0 100 80 "+localFoo)
	w.wants(localDB+" A", "NOERROR 10.1.0.5")
	w.wants("db-0.member1."+localDB+" A", "NOERROR 10.1.0.5")
	w.wants("_sql._tcp."+localDB+" SRV", "NOERROR 0 100 5432 db-0.member1."+localDB)
	w.wants("dns-version.cluster.local. TXT", `NOERROR "1.1.0"`) // of the kubernetes plugin
	for _, name := range []string{
		"bar.default.svc.cluster.local.", "foo.nowhere.svc.cluster.local.", "db-1.member1." + localDB, "foo.default.cluster.local.", "www.example.org.cluster.local.",
	} {
		w.denies(name)
	}
}

// denies: a negative answer has the SOA record of the cluster's own zone, whichever plugin made it.
func (w *world) denies(name string) {
	w.Helper()
	w.wants(name+" A", "NXDOMAIN")
	if m := w.ask(name + " A"); len(m.Ns) != 1 || m.Ns[0].Header().Rrtype != dns.TypeSOA || m.Ns[0].Header().Name != "cluster.local." {
		w.Errorf("%s: the authority is %v; want the SOA record of cluster.local", name, m.Ns)
	}
}

// testFailover is the known fault "Remote only if local does not exist": a local Service without
// endpoints answers forever, and no search suffix helps. With `ignore empty_service` it does not.
func testFailover(w *world) {
	for _, step := range []struct {
		what, change, want string
	}{
		{"no local Service", "", "10.0.0.77"},
		{"one without endpoints", aLocalFoo, "10.0.0.77"},
		{"one with an endpoint that is not ready", endpoints(false), "10.0.0.77"},
		{"it becomes ready", endpoints(true), "10.96.0.101"},
		{"it is not ready any more", endpoints(false), "10.0.0.77"},
		{"it is ready again", endpoints(true), "10.96.0.101"},
	} {
		w.Log(step.what)
		w.apply(step.change)
		if step.change == aLocalFoo {
			w.wants("101.0.96.10.in-addr.arpa. PTR", "NOERROR "+localFoo) // so kubernetes knows it
		}
		w.wants(localFoo+" A", "NOERROR "+step.want)
		w.wants(foo+" A", "NOERROR 10.0.0.77")
	}
	w.wants(localFoo+" AAAA", "NOERROR")
	w.wants("_http._tcp."+localFoo+" SRV", "NOERROR 0 100 80 "+localFoo)
	w.remove(aLocalFoo)
	w.wants(localFoo+" A", "NOERROR 10.0.0.77")
	w.remove(anImport)
	w.denies(localFoo)
}

// TestAliasOfEmptyServices is the other choice, without `ignore empty_service`: a local Service keeps its name while it exists.
func TestAliasOfEmptyServices(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.apply(strings.Replace(anImport, "[10.0.0.77]", `[10.0.0.77, "fd00::77"]`, 1))
		w.coreDNS(edited(example("alias"), "        ignore empty_service\n", ""))
		w.wants(localFoo+" A", "NOERROR 10.0.0.77")
		w.wants(localFoo+" AAAA", "NOERROR fd00::77")
		w.apply(aLocalFoo)
		w.wants(localFoo+" A", "NOERROR 10.96.0.101")
		w.wants(localFoo+" AAAA", "NOERROR") // not the import's: two families of one name are one Service
		w.remove(aLocalFoo)
		w.wants(localFoo+" A", "NOERROR 10.0.0.77")
		w.wants(localFoo+" AAAA", "NOERROR fd00::77")
	})
}

// TestEmptyServicesOnTheSearchPath is the same row for the ways that leave cluster.local alone.
func TestEmptyServicesOnTheSearchPath(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.apply(aLocalFoo)
		for name, search := range map[string]string{"stock": podSearch + " clusterset.local", "autopath": podSearch} {
			w.run(name, func(w *world) {
				w.apply(endpoints(true))
				w.coreDNS(edited(example(name), "        pods insecure\n", "        pods insecure\n        ignore empty_service\n"))
				w.searches(search)
				w.resolves("foo.default.svc", "10.96.0.101")
				w.apply(endpoints(false))
				w.resolves("foo.default.svc", "10.0.0.77")
				w.apply(endpoints(true))
				w.resolves("foo.default.svc", "10.96.0.101")
			})
		}
	})
}

// TestAliasWithoutAPIServer: names that neither plugin knows yet are SERVFAIL, and are not forwarded.
func TestAliasWithoutAPIServer(t *testing.T) {
	t.Parallel()
	inNetwork(t, func(w *world) {
		back := w.withoutAPIServer()
		w.start(example("alias"))
		w.wants(outside+" A", "NOERROR 192.0.2.1")
		for _, name := range []string{foo, localFoo, "www.example.org.cluster.local."} {
			w.wants(name+" A", "SERVFAIL")
		}
		back()
		w.getsReady()
		w.wants(localFoo+" A", "NOERROR 10.0.0.77")
	})
}

// TestAliasWithoutRights is what the example warns of. Rights that come later are enough, without a restart.
func TestAliasWithoutRights(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.kubectl("delete", "clusterrolebinding", "multicluster-dns:coredns")
		defer w.kubectl("apply", "-k", "deploy/plugin/cluster-coredns") // for the tests after this one, if it fails
		w.start(edited(example("alias"), "alias cluster.local\n", "alias cluster.local\n        startup_timeout 0s\n"))
		w.wants(local+" A", "NOERROR 10.96.0.100")
		w.wants(outside+" A", "NOERROR 192.0.2.1")
		for _, name := range []string{localFoo, "www.example.org.cluster.local."} {
			w.wants(name+" A", "SERVFAIL")
		}
		w.kubectl("apply", "-k", "deploy/plugin/cluster-coredns")
		w.wants(localFoo+" A", "NOERROR 10.0.0.77")
		w.denies("www.example.org.cluster.local.")
	})
}
