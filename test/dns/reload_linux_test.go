package dns

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

const line, withTTL = "    multicluster clusterset.local\n", "    multicluster clusterset.local {\n        ttl 7\n    }\n"

// TestReload changes the Corefile under a running server, while clients ask: every question is answered, and well.
func TestReload(t *testing.T) {
	inNetwork(t, func(w *world) {
		text := uncached(edited(example("stock"), "    reload\n", "    reload 2s 1s\n"))
		p := w.coreDNS(text)
		var clients sync.WaitGroup
		var asked atomic.Int64
		stop := make(chan struct{})
		for _, network := range []string{"udp", "tcp"} {
			clients.Go(func() {
				if err := w.askUntil(stop, network, &asked); err != nil {
					w.Errorf("after %d questions: %v", asked.Load(), err)
				}
			})
		}
		write(t, p.corefile, edited(text, line, withTTL))
		w.hasTTL(7)
		seen := asked.Load()
		w.eventually("some more answers", func() error {
			if asked.Load() < seen+200 && !w.Failed() {
				return fmt.Errorf("%d questions", asked.Load()-seen)
			}
			return nil
		})
		close(stop)
		clients.Wait()
		w.Logf("%d questions", asked.Load())
		w.getsReady()
	})
}

// TestReloadInAnOutage: what is known of a cluster outlives a reload that it cannot be asked in.
func TestReloadInAnOutage(t *testing.T) {
	inNetwork(t, func(w *world) {
		text := "clusterset.local {\n    errors\n    ready\n    reload 2s 1s\n" + line + "}\n"
		p := w.coreDNS(text)
		back := w.withoutAPIServer()
		write(t, p.corefile, edited(text, line, withTTL))
		w.hasTTL(7)
		w.getsReady()
		back()
		// The watch that was handed on still follows.
		w.apply(strings.ReplaceAll(anImport, "10.0.0.77", "10.0.0.78"))
		w.wants(foo+" A", "NOERROR 10.0.0.78")
	})
}

// TestReloadWithOtherOptionsInAnOutage: what is known also outlives a reload that changes what is watched, and one that takes the change
// back. The new options count when the API server answers again. They were once the end of all names, from the reload to that moment.
func TestReloadWithOtherOptionsInAnOutage(t *testing.T) {
	hidden := strings.Replace(anImport, "{name: foo}", "{name: foo, labels: {hidden: yes-please}}", 1)
	moved := strings.ReplaceAll(anImport, "10.0.0.77", "10.0.0.78")
	inNetwork(t, func(w *world) {
		w.writeKubeconfig("member1", "member1")
		for option, after := range map[string]struct{ change, want string }{
			"labels !hidden": {hidden, "NXDOMAIN"},
			"kubeconfig /var/run/secrets/multicluster/kubeconfig": {moved, "NOERROR 10.0.0.78"},
		} {
			w.run(option, func(w *world) {
				text := "clusterset.local {\n    errors\n    ready\n    prometheus :9153\n    reload 2s 1s\n" + line + "}\n"
				other := edited(text, line, "    multicluster clusterset.local {\n        startup_timeout 0s\n        ttl 7\n        "+option+"\n    }\n")
				p := w.coreDNS(text)
				w.wants(foo+" A", "NOERROR 10.0.0.77")
				back := w.withoutAPIServer()
				for _, now := range []struct {
					corefile string
					ttl      uint32
				}{{other, 7}, {text, 5}, {other, 7}} {
					write(t, p.corefile, now.corefile)
					w.hasTTL(now.ttl)
					w.getsReady()
				}
				back()
				w.apply(after.change)
				w.wants(foo+" A", after.want)
				w.eventually("one watch is left", func() error { return w.watches(1) })
				w.remove(after.change)
				w.apply(anImport)
			})
		}
	})
}

// TestReloadBesideANamespaceWithoutRights: a namespace that can be listed neither before a reload nor after it keeps no reload from taking
// effect, costs no name of another namespace, and leaves the server ready.
func TestReloadBesideANamespaceWithoutRights(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.kubectl("delete", "clusterrolebinding", "multicluster-dns:coredns")
		defer w.kubectl("apply", "-k", "deploy/plugin/cluster-coredns") // for the tests after this one
		w.kubectl("create", "rolebinding", "half", "--clusterrole=multicluster-dns", "--serviceaccount=kube-system:coredns")
		defer w.kubectl("delete", "rolebinding", "half", "--ignore-not-found")
		with := func(option string) string {
			return "clusterset.local {\n    errors\n    ready\n    prometheus :9153\n    reload 2s 1s\n    multicluster clusterset.local {\n" +
				"        startup_timeout 0s\n        ready_timeout 5s\n        namespaces default example\n        " + option + "\n    }\n}\n"
		}
		p := w.start(with("ttl 5"))
		w.wants(foo+" A", "NOERROR 10.0.0.77")
		w.wants("foo.example.svc.clusterset.local. A", "SERVFAIL")
		w.wants("bar.default.svc.clusterset.local. A", "NXDOMAIN")
		w.getsReady()
		write(t, p.corefile, with("labels !hidden"))
		hidden := strings.Replace(anImport, "{name: foo}", "{name: foo, labels: {hidden: yes-please}}", 1)
		w.apply(hidden)
		w.wants(foo+" A", "NXDOMAIN")
		w.eventually("one watch is left", func() error { return w.watches(1) })
		w.wants("foo.example.svc.clusterset.local. A", "SERVFAIL")
		w.getsReady()
		w.remove(hidden)
		w.apply(anImport)
		w.wants(foo+" A", "NOERROR 10.0.0.77")
	})
}

// TestReloadThatFailsLeavesNoWatch: the first Corefile has no block of ours, and so nobody of ours to tell that the second one failed.
func TestReloadThatFailsLeavesNoWatch(t *testing.T) {
	inNetwork(t, func(w *world) {
		const before = ".:53 {\n    errors\n    prometheus :9153\n    reload 2s 1s\n}\n"
		taken, err := net.Listen("tcp", ":1953")
		w.must(err)
		p := w.start(before)
		write(t, p.corefile, edited(before, "}\n", line+"}\nexample.org:1953 {\n}\n"))
		w.eventually("the reload fails", func() error {
			if w.metric("coredns_reload_failed_total") == 0 {
				return errors.New("it has not")
			}
			return nil
		})
		w.eventually("no watch is left", func() error { return w.watches(0) })
		w.must(taken.Close())
		write(t, p.corefile, edited(before, "}\n", line+"}\n\n"))
		w.wants(foo+" A", "NOERROR 10.0.0.77")
		w.must(w.watches(1))
	})
}

func (w *world) watches(want float64) error {
	if got := w.metric("coredns_multicluster_watches"); got != want {
		return fmt.Errorf("there are %v watches, want %v", got, want)
	}
	return nil
}

// TestAnswersAreCurrentDuringLameduck: a server that ends, and still answers, still follows the API server.
func TestAnswersAreCurrentDuringLameduck(t *testing.T) {
	inNetwork(t, func(w *world) {
		p := w.coreDNS(edited(example("stock"), "lameduck 5s", "lameduck 10m"))
		w.wants(foo+" A", "NOERROR 10.0.0.77")
		w.must(syscall.Kill(p.PID(), syscall.SIGTERM))
		w.eventually("lameduck", func() error {
			text, err := os.ReadFile(w.log())
			if err == nil && !strings.Contains(string(text), "lameduck") {
				err = errors.New("the log does not say so")
			}
			return err
		})
		w.apply(strings.ReplaceAll(anImport, "10.0.0.77", "10.0.0.78"))
		w.wants(foo+" A", "NOERROR 10.0.0.78")
	})
}

// hasTTL waits for the import's TTL. Until then, the import is answered too.
func (w *world) hasTTL(want uint32) {
	w.Helper()
	w.eventually("the new TTL", func() error {
		m := w.ask(foo + " A")
		if got := resolver.Short(m); got != "NOERROR 10.0.0.77" {
			w.Fatalf("%s: %s", foo, got)
		}
		if got := m.Answer[0].Header().Ttl; got != want {
			return fmt.Errorf("it is %d", got)
		}
		return nil
	})
}

// askUntil asks for an import and for a local Service repeatedly, and returns the first error.
func (w *world) askUntil(stop <-chan struct{}, network string, asked *atomic.Int64) error {
	for {
		for question, want := range map[string]string{foo + " A": "NOERROR 10.0.0.77", local + " A": "NOERROR 10.96.0.100"} {
			select {
			case <-stop:
				return nil
			default:
			}
			err := resolver.Differs(network, w.address, question, want)
			if err != nil && network == "tcp" {
				// CoreDNS closes the connections that its old listener has, answered or not: a client asks again (RFC 7766 6.2.4).
				err = resolver.Differs(network, w.address, question, want)
			}
			if err != nil {
				return err
			}
			asked.Add(1)
		}
	}
}
