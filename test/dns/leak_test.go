package dns

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/coredns/caddy"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// TestReloadsLeakNoWatch reloads again and again, with other options, other watches, and Corefiles that cannot work: in the end there
// are no more goroutines of watches than in the beginning.
func TestReloadsLeakNoWatch(t *testing.T) {
	c := shared.Cluster(t)
	corefile := func(options, after string) caddy.Input {
		text := ".:0 {\n bind 127.0.0.1\n multicluster clusterset.local {\n kubeconfig " + c.Kubeconfig + "\n" + options + "\n}\n" + after + "\n}\n"
		return caddy.CaddyfileInput{Contents: []byte(text), Filepath: "Corefile", ServerTypeName: "dns"}
	}
	before := watching()
	instance, err := caddy.Start(corefile("", ""))
	if err != nil {
		t.Fatal(err)
	}
	settled(t, instance)
	one := watching()
	if one <= before {
		t.Fatalf("%d goroutines watch with a server, and %d without: they are not counted", one, before)
	}
	for round := range 6 {
		for _, options := range []string{"ttl 7", "namespaces default", "labels !absent", ""} {
			if instance, err = instance.Restart(corefile(options, "")); err != nil {
				t.Fatalf("round %d, %q: %v", round, options, err)
			}
			settled(t, instance)
		}
		for broken, after := range map[string]string{"ttl never": "", "ttl 9": "file"} {
			if instance, err = instance.Restart(corefile(broken, after)); err == nil {
				t.Fatalf("round %d: %q, %q was taken", round, broken, after)
			}
			settled(t, instance)
		}
	}
	goroutinesFall(t, "no more watch than after the first start", one)
	for _, err := range instance.ShutdownCallbacks() {
		t.Error(err)
	}
	if err := instance.Stop(); err != nil {
		t.Error(err)
	}
	goroutinesFall(t, "no more watch than before it", before)
}

// settled waits until a server answers.
func settled(t *testing.T, instance *caddy.Instance) {
	t.Helper()
	kube.Eventually(t, "an answer", func() error {
		return resolver.Differs("udp", instance.Servers()[0].LocalAddr().String(), foo+" A", "NOERROR 10.0.0.77")
	})
}

func goroutinesFall(t *testing.T, what string, most int) {
	t.Helper()
	kube.Eventually(t, what, func() error {
		if got := watching(); got > most {
			return fmt.Errorf("%d goroutines, want at most %d", got, most)
		}
		return nil
	})
}

// watching is how many goroutines there are of plugin/watch, and of what they began.
func watching() int {
	all := make([]byte, 4<<20)
	all = all[:runtime.Stack(all, true)]
	n := 0
	for _, stack := range strings.Split(string(all), "\n\n") {
		if strings.Contains(stack, "multicluster/plugin") && !strings.Contains(stack, "test/dns.") {
			n++
		}
	}
	return n
}
