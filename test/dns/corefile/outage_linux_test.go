package corefile

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

// startupTimeout is that of the plugin, where a Corefile gives none; the kubernetes plugin has the same.
const startupTimeout = 5 * time.Second

// slack is what a busy machine may add to a start: much, as the fault is a start that never comes, or one many times as long.
const slack = 30 * time.Second

// TestStartWithoutAPIServer covers D36: with an API server that is away, or
// that takes connections and never answers, the stock Corefile starts, other zones are answered, clusterset names are SERVFAIL and
// go nowhere else, and the server is not ready. It becomes so as soon as the API server comes.
func TestStartWithoutAPIServer(t *testing.T) {
	for name, silent := range map[string]bool{"refused": false, "never answered": true} {
		t.Run(name, func(t *testing.T) {
			controlplane.InNetNS(t, func(t *testing.T) { testStartWithoutAPIServer(t, silent) })
		})
	}
}

func testStartWithoutAPIServer(t *testing.T, silent bool) {
	c := controlplane.New(t, controlplane.Options{})
	installCRDs(t, c)
	asClusterCoreDNS(t, c)
	outside := startUpstream(t)
	apply(t, c, anImport)
	c.StopAPIServer()
	arrive := func() {}
	if silent {
		arrive = hold(t, c)
	}

	began := time.Now()
	start(t, c, "53", example("stock"))
	took := time.Since(began)
	t.Logf("started after %v", took)
	// The kubernetes plugin waits as well, beside ours.
	if most := startupTimeout + slack; took > most {
		t.Errorf("started after %v; want %v at most", took, most)
	}
	wants(t, "www.example.org.", dns.TypeA, "NOERROR 192.0.2.1")
	for _, name := range []string{foo, db, "clusterset.local.", "anything.clusterset.local."} {
		wants(t, name, dns.TypeA, "SERVFAIL")
	}
	if status, err := ready(); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("ready is %d, %v; want 503", status, err)
	}

	arrive()
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	getsReady(t)
	wants(t, foo, dns.TypeA, "NOERROR 10.0.0.77")
	if leaked := outside.leaked(); len(leaked) > 0 {
		t.Errorf("clusterset names went upstream: %v", leaked)
	}
}

// hold takes the API server's place: it accepts connections and says nothing, until the function that it gives is called.
func hold(t *testing.T, c *controlplane.Cluster) (release func()) {
	t.Helper()
	host, port := hostPort(t, c.Config)
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	all.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				<-ctx.Done()
				_ = connection.Close()
			})
		}
	})
	release = sync.OnceFunc(func() {
		_ = listener.Close()
		cancel()
		all.Wait()
	})
	t.Cleanup(release)
	return release
}

// TestOutageAfterSync: what was known is served on, from a server that stays ready.
func TestOutageAfterSync(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		asClusterCoreDNS(t, c)
		startUpstream(t)
		apply(t, c, anImport)
		start(t, c, "53", example("stock"))
		getsReady(t)
		c.StopAPIServer()
		wants(t, foo, dns.TypeA, "NOERROR 10.0.0.77")
		wants(t, "bar.default.svc.clusterset.local.", dns.TypeA, "NXDOMAIN")
		getsReady(t)
		if err := c.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		apply(t, c, strings.ReplaceAll(anImport, "10.0.0.77", "10.0.0.78"))
		wants(t, foo, dns.TypeA, "NOERROR 10.0.0.78")
	})
}

// TestBlocksWaitBesideEachOther is coredns#7057: several server blocks, each with an API server of its own that cannot be reached,
// take about as long to start as one.
func TestBlocksWaitBesideEachOther(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		c.StopAPIServer()
		t.Cleanup(hold(t, c))
		const blocks = 20
		var text strings.Builder
		kubeconfig := read(t, c.Kubeconfig)
		for i := range blocks {
			path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.kubeconfig", i))
			write(t, path, kubeconfig)
			_, _ = fmt.Fprintf(&text, "c%d.example {\n errors\n multicluster {\n kubeconfig %s\n }\n}\n", i, path)
		}
		began := time.Now()
		start(t, c, "53", temporary(t, text.String()))
		took := time.Since(began)
		t.Logf("%d blocks started after %v", blocks, took)
		if most := startupTimeout + slack; took > most { // one after another they would take 100 s
			t.Errorf("%d blocks started after %v; want %v at most", blocks, took, most)
		}
		for i := range blocks {
			wants(t, fmt.Sprintf("foo.default.svc.c%d.example.", i), dns.TypeA, "SERVFAIL")
		}
	})
}

// TestNoCRD: a cluster without the CRD keeps its cluster DNS, and there are no imports. They are answered as soon as the CRD comes.
func TestNoCRD(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		asClusterCoreDNS(t, c)
		startUpstream(t)
		apply(t, c, aLocalService)
		start(t, c, "53", example("stock"))
		getsReady(t)
		wants(t, foo, dns.TypeA, "NXDOMAIN")
		wants(t, "local.default.svc.cluster.local.", dns.TypeA, "NOERROR 10.0.0.100")
		wants(t, "www.example.org.", dns.TypeA, "NOERROR 192.0.2.1")
		installCRDs(t, c)
		apply(t, c, anImport)
		wants(t, foo, dns.TypeA, "NOERROR 10.0.0.77")
	})
}

// TestReadyTimeout: the plugin has no rights, and the server answers all of a cluster's names. After ready_timeout it is ready, and
// names of the cluster and of the rest of the world resolve as before, those that a resolver completes by its search path among them.
func TestReadyTimeout(t *testing.T) {
	const timeout = "        ready_timeout 20s\n"
	for name, edit := range map[string]struct{ old, block string }{
		"stock":    {"    multicluster clusterset.local\n", "    multicluster clusterset.local {\n" + timeout + "    }\n"},
		"autopath": {"    multicluster clusterset.local\n", "    multicluster clusterset.local {\n" + timeout + "    }\n"},
		"alias":    {"        alias cluster.local\n", "        alias cluster.local\n" + timeout},
	} {
		t.Run(name, func(t *testing.T) {
			controlplane.InNetNS(t, func(t *testing.T) { testReadyTimeout(t, replaced(t, read(t, example(name)), edit.old, edit.block)) })
		})
	}
}

func testReadyTimeout(t *testing.T, corefile string) {
	c := controlplane.New(t, controlplane.Options{})
	installCRDs(t, c)
	apply(t, c, binaries.KubeadmRights)
	asPod(t, c, "kube-system", "coredns")
	startUpstream(t)
	apply(t, c, aLocalService)
	apply(t, c, endpoints("local", true))
	start(t, c, "53", temporary(t, corefile))
	if status, err := ready(); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("ready is %d, %v; want 503 before its time", status, err)
	}
	getsReady(t)
	wants(t, "local.default.svc.cluster.local.", dns.TypeA, "NOERROR 10.0.0.100")
	wants(t, foo, dns.TypeA, "SERVFAIL")
	wants(t, "www.example.org.", dns.TypeA, "NOERROR 192.0.2.1")
	completed := "NXDOMAIN"
	if strings.Contains(corefile, "autopath") {
		completed = "NOERROR 192.0.2.1 www.example.org."
	}
	wants(t, "www.example.org.default.svc.cluster.local.", dns.TypeA, completed)
	wants(t, "www.example.org.cluster.local.", dns.TypeA, "NXDOMAIN")
}
