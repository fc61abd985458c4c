package rules

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
	"github.com/clusterset-dns/multicluster/test/world/badobjects"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// neighbourWaits is how long a neighbour's change may take.
const neighbourWaits = 500 * time.Millisecond

// TestBadObjectsCostOthersNothing is a regression test: objects that the API server accepts from a user of one namespace kept other
// namespaces' changes from being answered, kept a server that was started again from ever answering, used its memory, and filled its log.
func TestBadObjectsCostOthersNothing(t *testing.T) {
	theirs, s := newTenants(t), newTenants(t)
	theirs.Create("c1", world.Import("victim", mcsv1beta1.ClusterSetIP, "192.0.2.1"))
	theirs.answers("victim", "NOERROR 192.0.2.1")
	before := theirs.startServer()
	before.answers(theirs.name("victim"), "192.0.2.1")
	ip := 1
	for _, bad := range badobjects.All(s.Name) {
		// Other work of a busy machine delays a change now and then; a bad object that was just made delays each.
		least, tries := time.Duration(math.MaxInt64), 0
		for ; tries < 3 && least > neighbourWaits; tries++ {
			if tries > 0 {
				s.Must(bad.Delete(t.Context(), s.Admin("c1")))
			}
			s.Must(bad.Create(t.Context(), s.Admin("c1")))
			ip++
			began := time.Now()
			world.Edit(theirs.Namespace, "c1", new(mcsv1beta1.ServiceImport), "victim", func(imp *mcsv1beta1.ServiceImport) {
				imp.Spec.IPs = []string{fmt.Sprintf("192.0.2.%d", ip)}
			})
			theirs.answers("victim", fmt.Sprintf("NOERROR 192.0.2.%d", ip))
			least = min(least, time.Since(began))
		}
		t.Logf("beside %s a neighbour's change was answered after %v (the least of %d)", bad.Name, least.Round(time.Millisecond), tries)
		if least > neighbourWaits {
			t.Errorf("beside %s each of %d changes of a neighbour's took longer than %v to be answered", bad.Name, tries, neighbourWaits)
		}
	}
	after, last := theirs.startServer(), fmt.Sprintf("192.0.2.%d", ip)
	for when, server := range map[string]server{"before": before, "after": after} {
		t.Run("a server that started "+when+" them", func(t *testing.T) {
			server.Namespace = theirs.For(t)
			server.answers(theirs.name("victim"), last)
			server.staysSmall()
		})
	}
	// The controllers go on as well, in both clusters, and during a flood. A new name waits ten seconds behind names that change, at most, and
	// then comes before them. On a busy machine it takes that long.
	s.flood()
	began := time.Now()
	theirs.Export("c1", world.Service("exported", world.Headless), "10.9.1.1")
	theirs.answers("exported", "NOERROR 10.9.1.1")
	theirs.Until("in c2", func() error { return theirs.hasEndpoints("c2", "exported", "10.9.1.1") })
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("during a flood, a neighbour's export was answered and imported after %v; want less than 30 s", took)
	}
	s.Until("the tenant's own names are answered", func() error {
		m, err := resolver.Ask("tcp", s.server, s.name("byhand")+" A")
		if err == nil && len(m.Answer) != 1000 {
			err = fmt.Errorf("there are %d addresses", len(m.Answer))
		}
		return err
	})
}

// flood makes 200 imports without a port that could be used, one with 1000 ports, and a headless one with 20 slices of 1000 endpoints.
func (s *tenants) flood() {
	s.Helper()
	for i := range 200 {
		odd := world.Import(fmt.Sprint("odd-", i), mcsv1beta1.ClusterSetIP, "\n1.2.3.4 forged", strings.Repeat("9", 10_000))
		odd.Spec.Ports = []mcsv1beta1.ServicePort{{Name: strings.Repeat("x", 1000), Port: -1}}
		s.Create("c1", odd)
	}
	huge := world.Import("huge", mcsv1beta1.ClusterSetIP)
	huge.Spec.Ports = nil
	for i := range 1000 {
		huge.Spec.Ports = append(huge.Spec.Ports, mcsv1beta1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1)})
	}
	s.Create("c1", huge, world.Import("byhand", mcsv1beta1.Headless))
	for i := range 20 {
		s.Create("c1", badobjects.Slice(s.Name, fmt.Sprint("huge-", i), "byhand", 1000, 1))
	}
}

// server is a CoreDNS that only one test asks.
type server struct {
	*world.Namespace
	program *kube.Program
	address string
}

func (s *tenants) startServer() server {
	s.Helper()
	started, address, err := binaries.StartCoreDNS(s.Context(), s.Cluster("c1").Cluster, "coredns", resolver.Corefile)
	s.Cleanup(started.Stop)
	s.Must(err)
	return server{s.Namespace, started, address}
}

func (s server) answers(name, ip string) {
	s.Helper()
	s.Until(name+" is "+ip, func() error { return resolver.Differs("udp", s.address, name+" A", "NOERROR "+ip) })
}

// staysSmall holds the limits of memory and of lines of log that bad objects of tenants must not break.
func (s server) staysSmall() {
	s.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.program.PID()))
	s.Must(err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	peak := 0 // of the resident memory, in kB
	_, err = fmt.Sscan(rest, &peak)
	s.Must(err)
	log, err := os.ReadFile(s.program.Log())
	s.Must(err)
	lines := strings.Count(string(log), "\n")
	s.Logf("it used %d MiB and wrote %d lines", peak>>10, lines)
	if peak > 300<<10 || lines > 500 {
		s.Errorf("it used %d MiB and wrote %d lines of log; want at most 300 and 500", peak>>10, lines)
	}
}
