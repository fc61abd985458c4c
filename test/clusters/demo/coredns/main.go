// Command coredns is the CoreDNS of the demo: with the plugins of its Corefile alone, as all of CoreDNS' take a minute to compile, and of the
// same source. What users deploy is built by build/coredns.sh.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"

	_ "github.com/clusterset-dns/multicluster/plugin"
)

func main() {
	dnsserver.Directives = []string{"bind", "errors", "kubernetes", "multicluster"} // in the order of plugin.cfg.patch
	coremain.Run()
}
