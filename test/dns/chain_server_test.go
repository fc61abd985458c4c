package dns

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/autopath"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/dns64"
	_ "github.com/coredns/coredns/plugin/dnssec"
	_ "github.com/coredns/coredns/plugin/file"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/minimal"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/timeouts"
	"github.com/miekg/dns"

	_ "github.com/clusterset-dns/multicluster/plugin"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// The order of plugins is that of CoreDNS, with ours where plugin.cfg.patch puts it.
func init() {
	caddy.Quiet, dnsserver.Quiet = true, true
	at := slices.Index(dnsserver.Directives, "kubernetes")
	order := slices.Insert(slices.Clone(dnsserver.Directives), at+1, "multicluster")
	dnsserver.Directives = slices.Insert(order, at, "scribble")
}

// start runs CoreDNS with one server block until the test's end, on ports that the system chooses. It waits longer than usual for
// a question over TCP: a machine that is busy with other tests must not make it hang up on a client.
func start(t *testing.T, c *kube.Cluster, plugins, option string, key zoneKey) (udp, tcp string) {
	t.Helper()
	emptyZone := filepath.Join(t.TempDir(), "zone")
	write(t, emptyZone, "@ 5 IN SOA ns.dns hostmaster 1 7200 1800 86400 5\n")
	corefile := strings.NewReplacer("KUBECONFIG", c.Kubeconfig, "KEY", key.file, "EMPTYZONE", emptyZone).Replace(`
.:0 {
    bind 127.0.0.1
    timeouts {
        read 1m
    }
` + plugins + `
    multicluster clusterset.local {
        kubeconfig KUBECONFIG
        ` + option + `
    }
}`)
	instance, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"})
	if err != nil {
		t.Fatalf("%v\n%s", err, corefile)
	}
	t.Cleanup(func() {
		for _, err := range instance.ShutdownCallbacks() {
			t.Error(err)
		}
		if err := instance.Stop(); err != nil {
			t.Error(err)
		}
	})
	server := instance.Servers()[0]
	return server.LocalAddr().String(), server.Addr().String()
}

// zoneKey signs clusterset.local.
type zoneKey struct {
	*dns.DNSKEY
	file string // without .key and .private
}

func newZoneKey(t *testing.T) zoneKey {
	t.Helper()
	key := &dns.DNSKEY{
		Hdr:   dns.RR_Header{Name: "clusterset.local.", Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET, Ttl: 3600},
		Flags: dns.ZONE | dns.SEP, Protocol: 3, Algorithm: dns.ECDSAP256SHA256,
	}
	private, err := key.Generate(256)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), fmt.Sprintf("Kclusterset.local.+013+%05d", key.KeyTag()))
	write(t, file+".key", key.String())
	write(t, file+".private", key.PrivateKeyString(private))
	return zoneKey{key, file}
}
