package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// story is what the demo shows, in order.
var story = []struct {
	title string
	show  func(context.Context, *stage) error
}{
	{"1. A ServiceImport foo arrives, with endpoints in member1 and member2", showImport},
	{"2. It has a derived Service, and that Service's ClusterIP is in its ips", showDerived},
	{"3. foo.default.svc.clusterset.local, wherever it runs", showClusterSetIP},
	{"4. A headless import db: each pod by <hostname>.<clusterid>", showHeadless},
	{"5. foo.default.svc on the search path, without a local foo: the import answers", showSearchRemote},
	{"6. The same with a local Service foo: the local one answers", showSearchLocal},
	{"7. The local foo is deleted: the import answers again", showSearchRemoteAgain},
}

const (
	foo = "foo.default.svc.clusterset.local."
	db  = "db.default.svc.clusterset.local."
)

func showImport(ctx context.Context, s *stage) error {
	if err := s.kubectlShown(ctx, "apply", "-f", "test/demo/foo.yaml"); err != nil {
		return err
	}
	began := time.Now()
	if err := s.until(ctx, "the import's ips are filled", func() error {
		ips, err := s.ips(ctx)
		if err == nil && ips == "" {
			err = fmt.Errorf("they are empty")
		}
		return err
	}); err != nil {
		return err
	}
	s.say("   %.1f s after kubectl ended\n", time.Since(began).Seconds())
	return nil
}

func (s *stage) ips(ctx context.Context) (string, error) {
	return s.run(ctx, "get", "serviceimport", "foo", "-o", "jsonpath={.spec.ips[*]}")
}

func (s *stage) clusterIP(ctx context.Context, service string) (string, error) {
	return s.run(ctx, "get", "service", service, "-o", "jsonpath={.spec.clusterIP}")
}

func showDerived(ctx context.Context, s *stage) error {
	if err := s.kubectlShown(ctx, "get", "serviceimport", "foo", "-o",
		"custom-columns=NAME:.metadata.name,TYPE:.spec.type,IPS:.spec.ips[*],READY:.status.conditions[?(@.type=='Ready')].status"); err != nil {
		return err
	}
	if err := s.kubectlShown(ctx, "get", "service", "derived-foo"); err != nil {
		return err
	}
	if err := s.kubectlShown(ctx, "get", "endpointslices", "-l", "kubernetes.io/service-name=derived-foo"); err != nil {
		return err
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
	if err := s.kubectlShown(ctx, "apply", "-f", "test/demo/db.yaml"); err != nil {
		return err
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
	if err := s.kubectlShown(ctx, "apply", "-f", "test/demo/local-foo.yaml"); err != nil {
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
	if err := s.kubectlShown(ctx, "delete", "-f", "test/demo/local-foo.yaml"); err != nil {
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

// kubectlShown runs kubectl and shows the command and its output.
func (s *stage) kubectlShown(ctx context.Context, args ...string) error {
	s.say("   $ kubectl %s\n", strings.Join(args, " "))
	out, err := s.run(ctx, args...)
	for line := range strings.Lines(out) {
		s.say("   %s", line)
	}
	return err
}

// until waits for a condition, a minute at most; then the check has failed.
func (s *stage) until(ctx context.Context, what string, condition func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			s.check(what, "yes", "yes")
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited for this in vain: %s: %w", what, err)
		case <-tick.C:
		}
	}
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
