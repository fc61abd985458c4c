package main

import (
	"slices"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/kubernetes"

	_ "github.com/clusterset-dns/multicluster/plugin"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// The order of plugins is that of CoreDNS, with ours where plugin.cfg.patch puts it, and before both the one that takes hold of them.
func init() {
	caddy.Quiet, dnsserver.Quiet = true, true
	at := slices.Index(dnsserver.Directives, "kubernetes")
	order := slices.Insert(slices.Clone(dnsserver.Directives), at+1, "multicluster")
	dnsserver.Directives = slices.Insert(order, at, "takenext")
	plugin.Register("takenext", func(c *caddy.Controller) error {
		dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
			taken = next
			return next
		})
		return nil
	})
}

// taken is the plugin behind the last takenext that was set up: made by its own setup, from a Corefile, as in a real server.
var taken plugin.Handler

// serve runs CoreDNS with one plugin, and gives that plugin. It ends with the benchmark or with stop.
func serve(b *testing.B, c *kube.Cluster, block string) (h plugin.Handler, stop func()) {
	b.Helper()
	corefile := ".:0 {\n bind 127.0.0.1\n takenext\n " + block + " {\n kubeconfig " + c.Kubeconfig + "\n " + properties[block] + "\n }\n}"
	instance, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"})
	if err != nil {
		b.Fatal(err)
	}
	stop = func() {
		for _, err := range instance.ShutdownCallbacks() {
			b.Error(err)
		}
		if err := instance.Stop(); err != nil {
			b.Error(err)
		}
	}
	return taken, stop
}

// The blocks of both plugins, and what is in them.
const (
	ourBlock    = "multicluster clusterset.local"
	inTreeBlock = "kubernetes clusterset.local"
)

var properties = map[string]string{ourBlock: "ttl 5", inTreeBlock: "multicluster clusterset.local"}
