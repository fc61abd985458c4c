package corefile

import "slices"

// The plugins that can answer a zone of the clusterset, or pass it on.
const (
	Multicluster = "multicluster"
	Kubernetes   = "kubernetes"
	forward      = "forward"
	autopath     = "autopath"
)

// Route is what a server does with a name.
type Route struct {
	// Block is false if no server block has the name: the server refuses it.
	Block bool
	// By is Multicluster, or Kubernetes with its option multicluster, or "" if neither answers.
	By string
	// To are the servers that the name is forwarded to: addresses, or a file such as /etc/resolv.conf.
	To []string
	// OwnZone is true if the server block, or the directive, is for a zone other than the root.
	OwnZone bool
}

// Answers reports whether the server answers the zone, or forwards it on purpose.
func (r Route) Answers() bool { return r.By != "" || r.OwnZone && len(r.To) > 0 }

// RouteOf returns what the server does with a name of a zone of the clusterset.
func RouteOf(blocks []Block, name string) Route {
	b := Serving(blocks, name)
	if b == nil {
		return Route{}
	}
	r := Route{Block: true, OwnZone: !slices.Contains(b.Zones, "")}
	if p, ok := b.Plugin(Multicluster); ok && covers(p.Args, b.Zones, name) {
		r.By = Multicluster
		return r
	}
	if p, ok := b.Plugin(Kubernetes); ok {
		if zones, ok := p.Option(Multicluster); ok && covers(zones, b.Zones, name) {
			r.By = Kubernetes
			return r
		}
	}
	if p, ok := forwarding(b, name); ok {
		r.To, r.OwnZone = p.Args[1:], r.OwnZone || normal(p.Args[0]) != ""
	}
	return r
}

// forwarding returns the directive of a server block that passes a name on: the first that matches.
func forwarding(b *Block, name string) (Plugin, bool) {
	if b == nil {
		return Plugin{}, false
	}
	for _, p := range b.Plugins {
		if p.Name == forward && len(p.Args) > 1 && Within(name, p.Args[0]) {
			return p, true
		}
	}
	return Plugin{}, false
}

// covers reports whether a name is in one of the zones, or of those of the server block if there are none.
func covers(zones, block []string, name string) bool {
	if len(zones) == 0 {
		zones = block
	}
	return slices.ContainsFunc(zones, func(zone string) bool { return Within(name, zone) })
}

// Autopath reports whether the server block of a name tries the search path with the zones of the
// plugin multicluster.
func Autopath(blocks []Block, name string) bool {
	b := Serving(blocks, name)
	if b == nil {
		return false
	}
	p, ok := b.Plugin(autopath)
	return ok && slices.Contains(p.Args, "@"+Multicluster)
}

// Aliases reports whether imports have names in a zone of the cluster itself, such as cluster.local.
func Aliases(blocks []Block, zone string) bool {
	b := Serving(blocks, zone)
	if b == nil {
		return false
	}
	p, ok := b.Plugin(Multicluster)
	if !ok {
		return false
	}
	zones, _ := p.Option("alias")
	return slices.ContainsFunc(zones, func(of string) bool { return Within(zone, of) })
}

// Names reports whether any server block has a directive with this name.
func Names(blocks []Block, plugin string) bool {
	return slices.ContainsFunc(blocks, func(b Block) bool { _, ok := b.Plugin(plugin); return ok })
}
