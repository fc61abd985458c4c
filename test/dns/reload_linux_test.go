package dns

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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
