package multicluster

import (
	"slices"
	"strings"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnsutil"
	"github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/util/validation"
)

// parseZones reads the zones of the line, or those of the server block.
func parseZones(c *caddy.Controller, conf *config) error {
	names := c.RemainingArgs()
	if len(names) == 0 {
		names = c.ServerBlockKeys
	}
	for _, name := range names {
		zones, err := zonesOf(c, name)
		if err != nil {
			return err
		}
		conf.zones = append(conf.zones, zones...)
	}
	return nil
}

// zonesOf returns the zones of one argument. A network in CIDR form stands for several zones, which
// this plugin does not accept.
func zonesOf(c *caddy.Controller, name string) ([]string, error) {
	zones := plugin.Host(name).NormalizeExact()
	if len(zones) == 0 {
		return nil, c.Errf("zone %q is not a domain name; want one such as clusterset.local", name)
	}
	for _, zone := range zones {
		if zone == "." {
			return nil, c.Err("zone \".\" would make every name in the world a clusterset name; want a zone on this line, such as `multicluster clusterset.local`")
		}
		if dnsutil.IsReverse(zone) > 0 {
			return nil, c.Errf("zone %q is a reverse zone, and clusterset names have no PTR records; want a zone such as clusterset.local", name)
		}
		if errs := validation.IsDNS1123Subdomain(strings.TrimSuffix(zone, ".")); len(errs) > 0 {
			return nil, c.Errf("zone %q is not a domain name; want one such as clusterset.local", name)
		}
		if !reached(zone, c.ServerBlockKeys) {
			return nil, c.Errf("zone %q is outside of this server block (%s), which receives no questions for it: add the zone to this block, or move multicluster to a block that has it", name, strings.Join(c.ServerBlockKeys, " "))
		}
	}
	return zones, nil
}

// reached reports whether the server block receives questions for some name of the zone.
func reached(zone string, serverBlock []string) bool {
	return len(serverBlock) == 0 || slices.ContainsFunc(serverBlock, func(key string) bool {
		return slices.ContainsFunc(plugin.Host(key).NormalizeExact(), func(block string) bool {
			return dns.IsSubDomain(block, zone) || dns.IsSubDomain(zone, block)
		})
	})
}
