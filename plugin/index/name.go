package index

import (
	"net/netip"
	"strings"
)

// Form is the kind of a name below a zone.
type Form uint8

const (
	FormOther     Form = iota // nothing of that shape exists
	FormApex                  // the zone itself
	FormVersion               // dns-version
	FormDNS                   // dns, above ns.dns
	FormNS                    // ns.dns
	FormSvc                   // svc
	FormNamespace             // <ns>.svc
	FormService               // <service>.<ns>.svc and all below it
)

// Name is a name below a zone, taken apart by its labels alone: what type was asked for does not matter to it.
type Name struct {
	Form    Form
	Service Key    // Name is empty for FormNamespace
	Below   string // the labels below the service's name, joined by dots; "" is the service's own name
}

// ParseName takes apart the labels below a zone, in lower case and without a final dot: "foo.default.svc". An escaped dot is
// taken for the end of a label like any other: the backslash before it stays, which no name of ours has.
func ParseName(below string) Name {
	switch below {
	case "":
		return Name{Form: FormApex}
	case "dns-version":
		return Name{Form: FormVersion}
	case "dns":
		return Name{Form: FormDNS}
	case "ns.dns":
		return Name{Form: FormNS}
	case "svc":
		return Name{Form: FormSvc}
	}
	rest, ok := strings.CutSuffix(below, ".svc")
	if !ok {
		return Name{}
	}
	rest, namespace := cutLabel(rest)
	if rest == "" {
		return Name{Form: FormNamespace, Service: Key{Namespace: namespace}}
	}
	rest, service := cutLabel(rest)
	return Name{Form: FormService, Service: Key{namespace, service}, Below: rest}
}

// cutLabel splits off the last label.
func cutLabel(name string) (rest, label string) {
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		return name[:dot], name[dot+1:]
	}
	return "", name
}

// HostLabel makes a host name from an address, for endpoints that have none: dots and colons become dashes, as all CoreDNS plugins
// and the conformance suite have it (BASE 2.1 asks for any unique one). A label may not begin or end with a dash (RFC 1123), so an
// IPv6 address that does gets a 0 there, which names the same address.
func HostLabel(addr netip.Addr) string {
	label := strings.NewReplacer(".", "-", ":", "-").Replace(addr.String())
	if strings.HasPrefix(label, "-") {
		label = "0" + label
	}
	if strings.HasSuffix(label, "-") {
		label += "0"
	}
	return label
}
