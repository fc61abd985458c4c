package index

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// NameKind is the kind of a name below a zone.
type NameKind uint8

const (
	KindOther     NameKind = iota // no name of this form exists
	KindApex                      // the zone itself
	KindVersion                   // dns-version
	KindDNS                       // dns, above ns.dns
	KindNS                        // ns.dns
	KindSvc                       // svc
	KindNamespace                 // <ns>.svc
	KindService                   // <service>.<ns>.svc and everything below it
)

// Name is a name below a zone, split by its labels. The type of the question does not matter.
type Name struct {
	Kind      NameKind
	Namespace string
	Service   Key    // "" for KindNamespace
	Below     string // the labels below the service's name, joined by dots; "" is the service's own name
}

// ParseName splits the labels below a zone, in lower case and without a final dot:
// "foo.default.svc". An escaped dot counts as the end of a label. The backslash before it stays,
// and no served name contains one.
func ParseName(below string) Name {
	switch below {
	case "":
		return Name{Kind: KindApex}
	case "dns-version":
		return Name{Kind: KindVersion}
	case "dns":
		return Name{Kind: KindDNS}
	case "ns.dns":
		return Name{Kind: KindNS}
	case "svc":
		return Name{Kind: KindSvc}
	}
	rest, ok := strings.CutSuffix(below, ".svc")
	if !ok {
		return Name{}
	}
	dot := strings.LastIndexByte(rest, '.')
	n := Name{Kind: KindNamespace, Namespace: rest[dot+1:]}
	if dot < 0 {
		return n
	}
	n.Kind = KindService
	above := strings.LastIndexByte(rest[:dot], '.')
	n.Service = Key(rest[above+1:])
	if above >= 0 {
		n.Below = rest[:above]
	}
	return n
}

// Has reports whether a name, in lower case and with the final dot, is the zone or below it.
func (z *Zone) Has(name string) bool {
	above, ok := strings.CutSuffix(name, z.Name)
	if !ok || above == "" {
		return ok
	}
	// An escaped dot does not end a label (RFC 1035 5.1). Such names are rare, so the library
	// handles them.
	return above[len(above)-1] == '.' && (!strings.HasSuffix(above, `\.`) || dns.IsSubDomain(z.Name, name))
}

// Parse splits a name in the zone, in lower case and with the final dot.
func (z *Zone) Parse(qname string) Name {
	return ParseName(strings.TrimSuffix(qname[:len(qname)-len(z.Name)], "."))
}

// Host returns the parts of a name below a service that can be an endpoint, <hostname>.<clusterid>,
// or only a cluster ID. The first of several labels is the hostname: only the index knows whether
// "a.b" is a host in b or a cluster ID.
func (n Name) Host() (hostname, cluster string) {
	if strings.HasPrefix(n.Below, "_") {
		return "", ""
	}
	hostname, cluster, found := strings.Cut(n.Below, ".")
	if !found {
		return "", hostname
	}
	return hostname, cluster
}

// Port returns the parts of a name below a service that can be a port, _<port>._<proto>, or only a
// protocol, without underscores.
func (n Name) Port() (port, protocol string) {
	labels, ok := strings.CutPrefix(n.Below, "_")
	if !ok {
		return "", ""
	}
	port, protocol, found := strings.Cut(labels, "._")
	if !found {
		return "", port
	}
	return port, protocol
}

// HostLabel makes a host name from an address, for endpoints without one: dots and colons become
// dashes, as in all CoreDNS plugins and in the conformance suite (BASE 2.1 requires a unique one).
// A label must not begin or end with a dash (RFC 1123), so an IPv6 address that would do so gets a
// 0 there, which is the same address.
func HostLabel(addr netip.Addr) string {
	label := dashes.Replace(addr.String())
	if strings.HasPrefix(label, "-") {
		label = "0" + label
	}
	if strings.HasSuffix(label, "-") {
		label += "0"
	}
	return label
}

var dashes = strings.NewReplacer(".", "-", ":", "-")
