package corefile

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// TestReload changes the Corefile under a running server, while clients ask: every question is answered, and well.
func TestReload(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		asClusterCoreDNS(t, c)
		startUpstream(t)
		apply(t, c, anImport)
		apply(t, c, aLocalService)
		text := replaced(t, read(t, example("stock")), "    reload\n", "    reload 2s 1s\n")
		text = replaced(t, text, "    cache 30 {", "    cache 30 example.org {") // each answer is ours, made anew
		path := temporary(t, text)
		start(t, c, "53", path)
		getsReady(t)

		stop := make(chan struct{})
		var asked atomic.Int64
		failures := make(chan string, 8)
		for _, network := range []string{"udp", "tcp"} {
			go func() { failures <- askUntil(stop, network, &asked) }()
		}
		write(t, path, replaced(t, text, "    multicluster clusterset.local\n", "    multicluster clusterset.local {\n        ttl 7\n    }\n"))
		controlplane.Eventually(t, "the new TTL", func() error {
			m, err := exchange("udp", "53", foo, dns.TypeA)
			if err == nil && (len(m.Answer) != 1 || m.Answer[0].Header().Ttl != 7) {
				err = fmt.Errorf("%v", m.Answer)
			}
			return err
		})
		seen := asked.Load()
		controlplane.Eventually(t, "some more answers", func() error {
			if asked.Load() < seen+200 && len(failures) == 0 {
				return fmt.Errorf("%d questions", asked.Load()-seen)
			}
			return nil
		})
		close(stop)
		for range 2 {
			if failure := <-failures; failure != "" {
				t.Error(failure)
			}
		}
		t.Logf("%d questions", asked.Load())
		getsReady(t)
	})
}

// TestReloadInAnOutage: what is known of a cluster outlives a reload that it cannot be asked in.
func TestReloadInAnOutage(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		asClusterCoreDNS(t, c)
		apply(t, c, anImport)
		text := "clusterset.local {\n    errors\n    ready\n    reload 2s 1s\n    multicluster\n}\n"
		path := temporary(t, text)
		start(t, c, "53", path)
		getsReady(t)
		c.StopAPIServer()
		write(t, path, replaced(t, text, "    multicluster\n", "    multicluster {\n        ttl 7\n    }\n"))
		controlplane.Eventually(t, "the new TTL", func() error {
			m, err := exchange("udp", "53", foo, dns.TypeA)
			switch {
			case err != nil:
				return err
			case short(m) != "NOERROR 10.0.0.77":
				t.Fatalf("%s in the outage: %s", foo, short(m))
			case m.Answer[0].Header().Ttl != 7:
				return fmt.Errorf("it is %d", m.Answer[0].Header().Ttl)
			}
			return nil
		})
		getsReady(t)
		// The watch that was handed on still follows.
		if err := c.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		apply(t, c, strings.ReplaceAll(anImport, "10.0.0.77", "10.0.0.78"))
		wants(t, foo, dns.TypeA, "NOERROR 10.0.0.78")
	})
}

// askUntil asks for an import and for a local Service repeatedly, and returns the first error.
func askUntil(stop <-chan struct{}, network string, asked *atomic.Int64) string {
	for {
		select {
		case <-stop:
			return ""
		default:
		}
		for name, want := range map[string]string{foo: "NOERROR 10.0.0.77", "local.default.svc.cluster.local.": "NOERROR 10.0.0.100"} {
			m, err := exchange(network, "53", name, dns.TypeA)
			if err != nil && network == "tcp" {
				// CoreDNS closes the connections that its old listener has, answered or not: a client asks again (RFC 7766 6.2.4).
				m, err = exchange(network, "53", name, dns.TypeA)
			}
			if err != nil {
				return fmt.Sprintf("%s over %s after %d questions: %v", name, network, asked.Load(), err)
			}
			if short(m) != want {
				return fmt.Sprintf("%s over %s after %d questions: %s", name, network, asked.Load(), short(m))
			}
			asked.Add(1)
		}
	}
}
