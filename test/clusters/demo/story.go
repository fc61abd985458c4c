package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// story is what the demo shows, in order.
var story = []struct {
	title string
	show  func(context.Context, *stage) error
}{
	{"1. Two clusters join", showJoin},
	{"2. A Service foo is exported in member1; member2 has it", showExport},
	{"3. There it has a derived Service, that Service's ClusterIP in its ips, and member1's endpoints", showDerived},
	{"4. foo.default.svc.clusterset.local, in member2", showClusterSetIP},
	{"5. A headless db that both export: each pod by <hostname>.<clusterid>", showHeadless},
	{"6. foo.default.svc on the search path of a pod in member2: the import answers", showSearchRemote},
	{"7. The same with a local Service foo in member2: the local one answers", showSearchLocal},
	{"8. The local foo is deleted: the import answers again", showSearchRemoteAgain},
	{"9. foo is scaled in member1: member2 follows", showScaled},
	{"10. member1 is stopped: after --peer-timeout, db has only the endpoint of member2, and foo keeps its last endpoints", showGone},
	{"11. member1 is back: db has both endpoints again", showBack},
}

const (
	foo = "foo.default.svc.clusterset.local."
	db  = "db.default.svc.clusterset.local."
)

func showJoin(ctx context.Context, s *stage) error {
	if _, err := binaries.Program("kubectl-multicluster"); err != nil {
		return err
	}
	if err := s.shown(ctx, append([]string{"multicluster", "join"}, members...)...); err != nil {
		return err
	}
	if err := s.until(ctx, "each reads the other", func() error {
		for _, name := range members {
			if err := s.isTrue(ctx, name, append(slices.Clone(leases), "-o", `jsonpath={.items[*].metadata.labels.clusterset-dns\.io/connected}`)...); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return s.getShown(ctx, append(slices.Clone(leases), columns...)...)
}

// isTrue is nil when kubectl gets True.
func (s *stage) isTrue(ctx context.Context, cluster string, args ...string) error {
	got, err := s.get(ctx, cluster, args...)
	if err == nil && got != "True" {
		err = fmt.Errorf("it is %q in %s", got, cluster)
	}
	return err
}

// What a cluster knows of its peers.
var (
	leases  = []string{"leases", "-n", "multicluster-system", "-l", "clusterset-dns.io/peer"}
	columns = []string{"-L", "clusterset-dns.io/connected", "-L", "clusterset-dns.io/reason"}
)

// showExport measures from the end of kubectl, which applies the ServiceExport last.
func showExport(ctx context.Context, s *stage) error {
	if err := s.applied(ctx, member1, "test/clusters/demo/foo.yaml"); err != nil {
		return err
	}
	began := time.Now()
	if err := s.until(ctx, "member2 has an import, and its ips are filled", func() error {
		ips, err := s.ips(ctx)
		if err == nil && ips == "" {
			err = errors.New("they are empty")
		}
		return err
	}); err != nil {
		return err
	}
	s.say("   %.1f s after kubectl ended\n", time.Since(began).Seconds())
	return s.endpoints(ctx, "10.101.0.7", "10.101.0.8")
}

func (s *stage) ips(ctx context.Context) (string, error) {
	return s.get(ctx, member2, "serviceimport", "foo", "-o", "jsonpath={.spec.ips[*]}")
}

func (s *stage) clusterIP(ctx context.Context, service string) (string, error) {
	return s.get(ctx, member2, "service", service, "-o", "jsonpath={.spec.clusterIP}")
}

// endpoints waits until the derived Service of foo has just these in member2.
func (s *stage) endpoints(ctx context.Context, want ...string) error {
	return s.until(ctx, fmt.Sprintf("derived-foo has %d endpoints in member2", len(want)), func() error {
		got, err := s.get(ctx, member2, "endpointslices", "-l", "kubernetes.io/service-name=derived-foo", "-o", "jsonpath={.items[*].endpoints[*].addresses[0]}")
		if err == nil && sortedJoin(strings.Fields(got)) != sortedJoin(want) {
			err = fmt.Errorf("it has %q", got)
		}
		return err
	})
}

func showDerived(ctx context.Context, s *stage) error {
	for _, args := range [][]string{
		{"serviceimport", "foo", "-o", "custom-columns=NAME:.metadata.name,TYPE:.spec.type,IPS:.spec.ips[*],CLUSTERS:.status.clusters[*].cluster,READY:.status.conditions[?(@.type=='Ready')].status"},
		{"service", "derived-foo"},
		{"endpointslices", "-l", "kubernetes.io/service-name=derived-foo", "-L", "multicluster.kubernetes.io/source-cluster"},
	} {
		if err := s.getShown(ctx, args...); err != nil {
			return err
		}
	}
	ips, err := s.ips(ctx)
	if err != nil {
		return err
	}
	clusterIP, err := s.clusterIP(ctx, "derived-foo")
	if err != nil {
		return err
	}
	s.check("the import's ips are the derived Service's ClusterIP", ips, clusterIP)
	return nil
}

func showClusterSetIP(ctx context.Context, s *stage) error {
	ip, err := s.clusterIP(ctx, "derived-foo")
	if err != nil {
		return err
	}
	if err := s.until(ctx, "CoreDNS answers foo", func() error { return s.resolves(foo, ip) }); err != nil {
		return err
	}
	return s.ask(
		question{foo, dns.TypeA, []string{foo + " A " + ip}},
		question{"_http._tcp." + foo, dns.TypeSRV, []string{"_http._tcp." + foo + " SRV 0 100 80 " + foo}},
	)
}

func showHeadless(ctx context.Context, s *stage) error {
	for _, name := range members {
		if err := s.applied(ctx, name, "test/clusters/demo/db.yaml", "test/clusters/demo/db-"+name+".yaml"); err != nil {
			return err
		}
	}
	if err := s.until(ctx, "CoreDNS answers db", func() error { return s.resolves(db, "10.101.0.20", "10.102.0.20") }); err != nil {
		return err
	}
	return s.ask(
		question{db, dns.TypeA, []string{db + " A 10.101.0.20", db + " A 10.102.0.20"}},
		question{"db-0.member1." + db, dns.TypeA, []string{"db-0.member1." + db + " A 10.101.0.20"}},
		question{"db-0.member2." + db, dns.TypeA, []string{"db-0.member2." + db + " A 10.102.0.20"}},
		question{"_postgres._tcp." + db, dns.TypeSRV, []string{
			"_postgres._tcp." + db + " SRV 0 50 5432 db-0.member1." + db,
			"_postgres._tcp." + db + " SRV 0 50 5432 db-0.member2." + db,
		}},
	)
}

func showSearchRemote(ctx context.Context, s *stage) error {
	s.say("   search %s\n", strings.Join(searchPath.Search, " "))
	return s.searchLeadsTo(ctx, "derived-foo", foo)
}

func showSearchLocal(ctx context.Context, s *stage) error {
	if err := s.applied(ctx, member2, "test/clusters/demo/local-foo.yaml"); err != nil {
		return err
	}
	ip, err := s.clusterIP(ctx, "foo")
	if err != nil {
		return err
	}
	if err := s.until(ctx, "CoreDNS answers the local foo", func() error { return s.resolves("foo.default.svc.cluster.local.", ip) }); err != nil {
		return err
	}
	return s.searchLeadsTo(ctx, "foo", "foo.default.svc.cluster.local.")
}

func showSearchRemoteAgain(ctx context.Context, s *stage) error {
	if err := s.shown(ctx, "--context", member2, "delete", "-f", "test/clusters/demo/local-foo.yaml"); err != nil {
		return err
	}
	if err := s.until(ctx, "CoreDNS knows that the local foo is gone", func() error { return s.resolves("foo.default.svc.cluster.local.") }); err != nil {
		return err
	}
	return s.searchLeadsTo(ctx, "derived-foo", foo)
}

// searchLeadsTo walks foo.default.svc over the search path, and checks that the given name of the given Service answers.
func (s *stage) searchLeadsTo(ctx context.Context, service, name string) error {
	ip, err := s.clusterIP(ctx, service)
	if err != nil {
		return err
	}
	got, err := s.walk("foo.default.svc")
	if err != nil {
		return err
	}
	s.check("foo.default.svc is "+name, got, name+" A "+ip)
	return nil
}

func showScaled(ctx context.Context, s *stage) error {
	if err := s.applied(ctx, member1, "test/clusters/demo/foo-scaled.yaml"); err != nil {
		return err
	}
	began := time.Now()
	if err := s.endpoints(ctx, "10.101.0.7", "10.101.0.8", "10.101.0.9"); err != nil {
		return err
	}
	s.say("   %.1f s after kubectl ended\n", time.Since(began).Seconds())
	return nil
}

// showGone stops member1. The controllers of the demo make no connections that could prove its death,
// because no pods run, so its death is only assumed.
func showGone(ctx context.Context, s *stage) error {
	began := time.Now()
	s.controllers[member1].Stop()
	s.clusters[member1].StopAPIServer()
	if err := s.until(ctx, "CoreDNS answers the db of member2 alone", func() error { return s.resolves(db, "10.102.0.20") }); err != nil {
		return err
	}
	s.say("   %.1f s after the stop; the timeout is %s here, from the last contact with member1\n", time.Since(began).Seconds(), peerTimeout)
	if err := s.until(ctx, "foo has the condition EndpointsKept", func() error {
		return s.isTrue(ctx, member2, "serviceimport", "foo", "-o", "jsonpath={.status.conditions[?(@.type=='EndpointsKept')].status}")
	}); err != nil {
		return err
	}
	if err := s.endpoints(ctx, "10.101.0.7", "10.101.0.8", "10.101.0.9"); err != nil {
		return err
	}
	if err := s.getShown(ctx, append(slices.Clone(leases), columns...)...); err != nil {
		return err
	}
	return s.getShown(ctx, "serviceimport", "foo", "-o", "custom-columns=NAME:.metadata.name,KEPT:.status.conditions[?(@.type=='EndpointsKept')].message")
}

func showBack(ctx context.Context, s *stage) error {
	if err := s.clusters[member1].StartAPIServer(ctx); err != nil {
		return err
	}
	if err := s.startController(ctx, member1); err != nil {
		return err
	}
	return s.until(ctx, "CoreDNS answers the db of both", func() error { return s.resolves(db, "10.101.0.20", "10.102.0.20") })
}

// shown runs kubectl and shows the command and its output.
func (s *stage) shown(ctx context.Context, args ...string) error {
	s.say("   $ kubectl %s\n", strings.Join(args, " "))
	out, err := s.run(ctx, s.programs["kubectl"], args...)
	for line := range strings.Lines(out) {
		s.say("   %s", line)
	}
	return err
}

// getShown is in member2.
func (s *stage) getShown(ctx context.Context, args ...string) error {
	return s.shown(ctx, append([]string{"--context", member2, "get"}, args...)...)
}

func (s *stage) applied(ctx context.Context, cluster string, files ...string) error {
	args := []string{"--context", cluster, "apply"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	return s.shown(ctx, args...)
}

// until waits for a condition, a minute at most; then the check has failed.
func (s *stage) until(ctx context.Context, what string, condition func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := kube.Poll(ctx, 20*time.Millisecond, func(context.Context) error { return condition() }); err != nil {
		return fmt.Errorf("waited for this in vain: %s: %w", what, err)
	}
	s.check(what, "yes", "yes")
	return nil
}

func (s *stage) check(what, got, want string) {
	if got == want {
		s.passed++
		s.say("   ok: %s\n", what)
		return
	}
	s.failed++
	s.say("   FAILED: %s: got %q, want %q\n", what, got, want)
}

// sortedJoin makes records comparable: a server may give them in any order.
func sortedJoin(lines []string) string {
	return strings.Join(slices.Sorted(slices.Values(lines)), "\n")
}
