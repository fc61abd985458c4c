// Package multicluster is a CoreDNS plugin that answers the clusterset zone of Kubernetes' Multi-Cluster Services API (KEP-1645).
// It joins its parts: parse -> watch -> index -> handler. See README.md for its syntax.
package multicluster

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/transport"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

const pluginName = "multicluster"

func init() { plugin.Register(pluginName, setup) }

func setup(c *caddy.Controller) error {
	conf, err := parse(c)
	if err != nil {
		return plugin.Error(pluginName, err)
	}
	i := instanceOf(c)
	shared, err := i.watch(conf)
	if err != nil {
		return plugin.Error(pluginName, fmt.Errorf("%s:%d: %w", c.File(), conf.line, err))
	}
	m := &Multicluster{
		watch: shared.Watch, fall: conf.fall,
		clusterDomain: conf.clusterDomain, searchTail: searchTail(conf.clusterDomain, conf.zones, ownSearch("/etc/resolv.conf")),
	}
	c.OnStartup(func() error {
		m.boundReadiness(shared, conf.readyTimeout, i.ended)
		i.await(shared, conf.startupTimeout)
		return nil
	})
	server := serverAddrs(dnsserver.GetConfig(c))
	for i, name := range slices.Concat(conf.zones, conf.aliases) {
		m.zones = append(m.zones, index.Zone{Name: name, TTL: conf.ttl, NegativeTTL: conf.negTTL, Server: server, Guest: i >= len(conf.zones)})
	}
	slices.SortStableFunc(m.zones, func(y, z index.Zone) int { return len(z.Name) - len(y.Name) })
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		m.Next = next
		return m
	})
	return nil
}

// serverAddrs is the addresses that clients reach this server by: those that it is bound to, or of all interfaces where it is bound
// to none. Loopback and link-local ones are no use to others, and only named where there is nothing else. A server on another port
// than 53 has none: nobody who follows an NS record would find it there.
func serverAddrs(conf *dnsserver.Config) []netip.Addr {
	if conf.Port != transport.Port {
		return nil
	}
	var all []netip.Addr
	for _, host := range conf.ListenHosts {
		if ip, err := netip.ParseAddr(host); err == nil && !ip.IsUnspecified() {
			all = append(all, ip.WithZone("").Unmap())
		}
	}
	if len(all) == 0 {
		all = interfaceAddrs()
	}
	outside := slices.DeleteFunc(slices.Clone(all), func(ip netip.Addr) bool { return !ip.IsGlobalUnicast() })
	if len(outside) > 0 {
		return outside
	}
	return all
}

func interfaceAddrs() (ips []netip.Addr) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		log.Warningf("The addresses of this machine's interfaces are not known, so the zone's NS has none: %v", err)
	}
	for _, addr := range addrs {
		if prefix, err := netip.ParsePrefix(addr.String()); err == nil {
			ips = append(ips, prefix.Addr().Unmap())
		}
	}
	return ips
}
