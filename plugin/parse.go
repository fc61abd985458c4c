package multicluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/plugin/watch"
)

// config is a multicluster block of a Corefile.
type config struct {
	zones               []string // in lower case, with the final dot
	aliases             []string // in lower case, with the final dot
	kubeconfig, context string   // "": the pod's own service account
	line                int      // place in the Corefile where the API server is named
	watch               watch.Options
	ttl, negTTL         uint32 // seconds
	udpSize             uint32 // the largest reply over UDP, in bytes
	clusterDomain       string // of the pods' search path; in lower case, with the final dot
	startupTimeout      time.Duration
	readyTimeout        time.Duration
	fall                fall.F
}

const (
	defaultTTL = 5
	maxTTL     = 3600
	// defaultUDPSize fits into one packet on all usual networks, as NSD and the DNS flag day of 2020
	// have it. A reply of 64 KB to a question of 61 bytes would serve attackers with a forged source.
	defaultUDPSize        = 1232
	defaultStartupTimeout = 5 * time.Second
	defaultReadyTimeout   = time.Minute
)

// directives are the lines of a block. Each reads its own arguments. Its error contains the
// expected form.
var directives = map[string]func(c *caddy.Controller, conf *config, args []string) error{
	"kubeconfig":  parseKubeconfig,
	"namespaces":  parseNamespaces,
	"labels":      parseLabels,
	"noendpoints": parseNoEndpoints,
	"ttl": func(c *caddy.Controller, conf *config, args []string) error {
		return parseNumber(c, "ttl", &conf.ttl, "seconds", 0, maxTTL, args)
	},
	"negttl": func(c *caddy.Controller, conf *config, args []string) error {
		return parseNumber(c, "negttl", &conf.negTTL, "seconds", 0, maxTTL, args)
	},
	"udp_size": func(c *caddy.Controller, conf *config, args []string) error {
		return parseNumber(c, "udp_size", &conf.udpSize, "bytes", dns.MinMsgSize, dns.MaxMsgSize, args)
	},
	"alias":          parseAlias,
	"cluster_domain": parseClusterDomain,
	"startup_timeout": func(c *caddy.Controller, conf *config, args []string) error {
		return parseTimeout(c, "startup_timeout", &conf.startupTimeout, args)
	},
	"ready_timeout": func(c *caddy.Controller, conf *config, args []string) error {
		return parseTimeout(c, "ready_timeout", &conf.readyTimeout, args)
	},
	"fallthrough": parseFallthrough,
}

const directiveNames = "kubeconfig, namespaces, labels, noendpoints, ttl, negttl, udp_size, alias, cluster_domain, startup_timeout, ready_timeout or fallthrough"

// parse reads the multicluster block of a server block. Its errors contain the file and line.
func parse(c *caddy.Controller) (config, error) {
	conf := config{ttl: defaultTTL, udpSize: defaultUDPSize, clusterDomain: "cluster.local.", startupTimeout: defaultStartupTimeout, readyTimeout: defaultReadyTimeout}
	for blocks := 0; c.Next(); blocks++ {
		if blocks > 0 {
			return conf, c.Err("multicluster is given twice in this server block; want it once, with all zones on its line")
		}
		conf.line = c.Line()
		if err := parseZones(c, &conf); err != nil {
			return conf, err
		}
		given := map[string]bool{}
		for c.NextBlock() {
			name := c.Val()
			read, ok := directives[name]
			if !ok {
				return conf, c.Errf("unknown property %q; want %s", name, directiveNames)
			}
			if given[name] {
				return conf, c.Errf("%s is given twice; want it once, with all of its arguments", name)
			}
			given[name] = true
			if err := read(c, &conf, c.RemainingArgs()); err != nil {
				return conf, err
			}
		}
		if !given["negttl"] {
			conf.negTTL = conf.ttl
		}
	}
	return conf, nil
}

func parseKubeconfig(c *caddy.Controller, conf *config, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return c.Errf("kubeconfig has %d arguments; want a file, and a context of it if not its current one", len(args))
	}
	conf.kubeconfig, conf.line = args[0], c.Line()
	if len(args) == 2 {
		conf.context = args[1]
	}
	return nil
}

func parseNamespaces(c *caddy.Controller, conf *config, args []string) error {
	if len(args) == 0 {
		return c.Err("namespaces has no argument; want the names of one or more namespaces, or no such line for all")
	}
	for _, name := range args {
		if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
			return c.Errf("namespaces: %q is not a namespace's name: %s", name, errs[0])
		}
	}
	conf.watch.Namespaces = slices.Compact(slices.Sorted(slices.Values(args)))
	return nil
}

func parseLabels(c *caddy.Controller, conf *config, args []string) error {
	text := strings.Join(args, " ")
	selector, err := labels.Parse(text)
	if err != nil || selector.Empty() {
		return c.Errf("labels: %q is not a label selector; want one such as `env in (prod, staging), tier=web`%s", text, because(err))
	}
	conf.watch.Labels = selector.String()
	return nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" (%v)", err)
}

func parseNoEndpoints(c *caddy.Controller, conf *config, args []string) error {
	if len(args) > 0 {
		return c.Errf("noendpoints has the argument %q; want none", args[0])
	}
	conf.watch.NoEndpoints = true
	return nil
}

func parseNumber(c *caddy.Controller, name string, number *uint32, unit string, least, most uint64, args []string) error {
	text := strings.Join(args, " ")
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n < least || n > most {
		return c.Errf("%s %q; want %s, from %d to %d", name, text, unit, least, most)
	}
	*number = uint32(n)
	return nil
}

func parseAlias(c *caddy.Controller, conf *config, args []string) error {
	if len(args) == 0 {
		return c.Err("alias has no argument; want zones of another plugin that also resolve imports, such as cluster.local")
	}
	for _, name := range args {
		zones, err := zonesOf(c, name)
		if err != nil {
			return err
		}
		for _, zone := range zones {
			if slices.Contains(conf.zones, zone) {
				return c.Errf("alias: %q is a zone of this block itself; want the zone of another plugin, such as cluster.local", name)
			}
			conf.aliases = append(conf.aliases, zone)
		}
	}
	return nil
}

func parseClusterDomain(c *caddy.Controller, conf *config, args []string) error {
	if len(args) != 1 {
		return c.Errf("cluster_domain has %d arguments; want the one domain of the cluster, such as cluster.local", len(args))
	}
	if errs := validation.IsDNS1123Subdomain(strings.TrimSuffix(strings.ToLower(args[0]), ".")); len(errs) > 0 {
		return c.Errf("cluster_domain %q is not a domain name; want one such as cluster.local", args[0])
	}
	conf.clusterDomain = dns.CanonicalName(args[0])
	return nil
}

func parseTimeout(c *caddy.Controller, name string, timeout *time.Duration, args []string) error {
	text := strings.Join(args, " ")
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return c.Errf("%s %q; want a duration such as 5s, or 0s not to wait at all", name, text)
	}
	*timeout = d
	return nil
}

func parseFallthrough(c *caddy.Controller, conf *config, args []string) error {
	for _, name := range args {
		if len(plugin.Host(name).NormalizeExact()) == 0 {
			return c.Errf("fallthrough: %q is not a zone; want domain names, or none for all", name)
		}
	}
	conf.fall.SetZonesFromArgs(args)
	return nil
}
