package dns

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// startupTimeout is that of the plugin, where a Corefile gives none; the kubernetes plugin has the same.
const startupTimeout = 5 * time.Second

// slack is what a busy machine may add to a start: much, as the fault is a start that never comes, or one many times as long.
const slack = 30 * time.Second

// withoutAPIServer refuses connections to the API server until it is called back.
func (w *world) withoutAPIServer() (back func()) {
	w.Helper()
	resume, err := w.api.Refuse()
	w.must(err)
	return func() {
		w.Helper()
		w.must(resume())
	}
}

// withSilentAPIServer is the same with connections that are accepted and never answered.
func (w *world) withSilentAPIServer() (back func()) {
	w.api.Cut()
	resume := w.api.Stall()
	return func() {
		w.api.Cut() // none of them is answered later
		resume()
	}
}

// startsInTime runs a CoreDNS whose plugins cannot reach their API servers: all of them wait beside each other.
func (w *world) startsInTime(corefile string) {
	w.Helper()
	began := time.Now()
	w.start(corefile)
	took := time.Since(began)
	w.Logf("started after %v", took)
	if most := startupTimeout + slack; took > most {
		w.Errorf("started after %v; want %v at most", took, most)
	}
}

// TestStartWithoutAPIServer covers D36: with an API server that is away, or
// that takes connections and never answers, the stock Corefile starts, other zones are answered, clusterset names are SERVFAIL and
// go nowhere else, and the server is not ready. It becomes so as soon as the API server comes.
func TestStartWithoutAPIServer(t *testing.T) {
	for name, away := range map[string]func(*world) func(){"refused": (*world).withoutAPIServer, "never answered": (*world).withSilentAPIServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inNetwork(t, func(w *world) {
				back := away(w)
				w.startsInTime(example("stock"))
				w.wants(outside+" A", "NOERROR 192.0.2.1")
				for _, name := range []string{foo, db, "clusterset.local.", "anything.clusterset.local."} {
					w.wants(name+" A", "SERVFAIL")
				}
				w.readyIs(http.StatusServiceUnavailable)
				back()
				w.getsReady()
				w.wants(foo+" A", "NOERROR 10.0.0.77")
			})
		})
	}
}

// testOutage is with a server that has synced.
func testOutage(w *world) {
	back := w.withoutAPIServer()
	kube.Eventually(w, "the plugin has noticed", func() error {
		if up := w.metric("coredns_multicluster_watch_up"); up > 0 {
			return fmt.Errorf("%.0f watches work", up)
		}
		return nil
	})
	w.wants(foo+" A", "NOERROR 10.0.0.77")
	w.wants(absent+" A", "NXDOMAIN")
	w.readyIs(http.StatusOK)
	back()
	w.apply(strings.ReplaceAll(anImport, "10.0.0.77", "10.0.0.78"))
	w.wants(foo+" A", "NOERROR 10.0.0.78")
}

// TestBlocksWaitBesideEachOther is coredns#7057: several server blocks, each with an API server of its own that cannot be reached,
// take about as long to start as one. One after another they would take 100 s.
func TestBlocksWaitBesideEachOther(t *testing.T) {
	t.Parallel()
	inNetwork(t, func(w *world) {
		w.withSilentAPIServer()
		kubeconfig, err := w.api.Kubeconfig(w.cluster.Config)
		w.must(err)
		const blocks = 20
		var text strings.Builder
		for i := range blocks {
			path := filepath.Join(w.TempDir(), fmt.Sprintf("%d.kubeconfig", i))
			write(w.T, path, string(kubeconfig))
			_, _ = fmt.Fprintf(&text, "c%d.example {\n errors\n multicluster {\n kubeconfig %s\n }\n}\n", i, path)
		}
		w.startsInTime(text.String())
		for i := range blocks {
			w.wants(fmt.Sprintf("foo.default.svc.c%d.example. A", i), "SERVFAIL")
		}
	})
}

// readyTimeout is short, and longer than a start.
const readyTimeout = 4 * time.Second

// TestReadyTimeout: the plugin has no rights, and the server answers all of a cluster's names. After ready_timeout it is ready, and not
// before. Names of the cluster and of the rest of the world resolve as before, those that a resolver completes by its search path among them.
func TestReadyTimeout(t *testing.T) {
	t.Parallel()
	inNetwork(t, func(w *world) {
		w.pod = "kube-system/stock"
		times := fmt.Sprintf("        startup_timeout 0s\n        ready_timeout %v\n", readyTimeout)
		plain, block := "    multicluster clusterset.local\n", "    multicluster clusterset.local {\n"+times+"    }\n"
		for name, edit := range map[string][2]string{
			"stock": {plain, block}, "autopath": {plain, block}, "alias": {"        alias cluster.local\n", "        alias cluster.local\n" + times},
		} {
			w.run(name, func(w *world) { testReadyTimeout(w, edited(example(name), edit[0], edit[1])) })
		}
	})
}

func testReadyTimeout(w *world, corefile string) {
	began := time.Now() // the server's time begins later
	w.start(corefile)
	if err := ready(http.StatusServiceUnavailable); err != nil && time.Since(began) < readyTimeout {
		w.Error(err)
	}
	w.getsReady()
	if took := time.Since(began); took < readyTimeout {
		w.Errorf("ready after %v; want %v at least", took, readyTimeout)
	}
	w.wants(local+" A", "NOERROR 10.96.0.100")
	w.wants(foo+" A", "SERVFAIL")
	w.wants(outside+" A", "NOERROR 192.0.2.1")
	w.wants("www.example.org.default.svc.cluster.local. A", "NXDOMAIN")
	w.wants("www.example.org.cluster.local. A", "NXDOMAIN")
}
