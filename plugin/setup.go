// Package multicluster is a CoreDNS plugin that answers the clusterset zone of the Kubernetes
// Multi-Cluster Services API (KEP-1645). It joins its parts: parse -> watch -> index -> handler.
// README.md describes the syntax.
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
	block, err := i.block(c.ServerBlockKeys, conf)
	if err != nil {
		return plugin.Error(pluginName, fmt.Errorf("%s:%d: %w", c.File(), conf.line, err))
	}
	server := dnsserver.GetConfig(c)
	m := &Multicluster{
		watch: block, fall: conf.fall, udpSize: int(conf.udpSize),
		clusterDomain: conf.clusterDomain, searchTail: searchTail(conf.clusterDomain, conf.zones),
	}
	c.OnStartup(func() error {
		m.owner = server.Handler("kubernetes") // known after all plugins are set up
		m.boundReadiness(block, conf.readyTimeout, i.ended)
		i.await(block, conf.startupTimeout)
		return nil
	})
	addrs := serverAddrs(server)
	for i, name := range slices.Concat(conf.zones, conf.aliases) {
		m.zones = append(m.zones, index.Zone{Name: name, TTL: conf.ttl, NegativeTTL: conf.negTTL, Server: addrs, Alias: i >= len(conf.zones)})
	}
	slices.SortStableFunc(m.zones, func(y, z index.Zone) int { return len(z.Name) - len(y.Name) })
	server.AddPlugin(func(next plugin.Handler) plugin.Handler {
		m.Next = next
		return m
	})
	return nil
}

// maxServerAddrs is the largest number of addresses of the zone's NS record: one is enough to find
// the server.
const maxServerAddrs = 8

// serverAddrs returns the addresses at which clients reach this server: those that it is bound to,
// or those of all interfaces. Loopback and link-local addresses are useless to other hosts, so they
// are returned only if there are no others. A server on another port than 53 has none: an NS record
// cannot contain a port.
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
		all = outside
	}
	return all[:min(len(all), maxServerAddrs)]
}

func interfaceAddrs() (ips []netip.Addr) {
	interfaces, err := net.Interfaces()
	if err != nil {
		log.Warningf("Cannot list the addresses of this machine's interfaces, so the NS record of the zone has no address: %v", err)
	}
	for _, i := range interfaces {
		if !isOwn(i) {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			log.Warningf("Cannot list the addresses of interface %s, so the NS record of the zone has none of them: %v", i.Name, err)
		}
		for _, addr := range addrs {
			if prefix, err := netip.ParsePrefix(addr.String()); err == nil {
				ips = append(ips, prefix.Addr().Unmap())
			}
		}
	}
	return ips
}

// isOwn reports whether the addresses of an interface belong to this server. On a node where
// kube-proxy uses IPVS, kube-ipvs0 has the ClusterIPs of all Services, and is down.
func isOwn(i net.Interface) bool { return i.Flags&net.FlagUp != 0 && i.Name != "kube-ipvs0" }
