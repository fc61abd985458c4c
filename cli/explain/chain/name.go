package chain

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The zones of names.
const (
	ClustersetZone = "clusterset.local"
	ClusterZone    = "cluster.local"
)

// Forms lists the accepted forms of a name.
const Forms = `foo, foo.default, foo.default.svc, foo.default.svc.cluster.local, foo.default.svc.clusterset.local,
the same with _port._protocol. before it, and db-0.member1.db.default.svc.clusterset.local for one endpoint`

// Name is a name that somebody asks for.
type Name struct {
	// Text is the name without the dot at its end.
	Text string
	// Absolute is true if the name ended with a dot, which switches off the search path.
	Absolute bool
	// Zone is ClustersetZone, ClusterZone, or "" for a short name.
	Zone               string
	Service, Namespace string
	// Port and Protocol are set for names of SRV records, without the underscores.
	Port, Protocol string
	// Host and Cluster are set for the name of one endpoint of a headless import.
	Host, Cluster string
}

// ParseName reads a name. A name of one label is in the given namespace.
func ParseName(text, namespace string) (Name, error) {
	n := Name{Text: strings.ToLower(strings.TrimSuffix(text, ".")), Absolute: strings.HasSuffix(text, ".")}
	rest := n.Text
	for _, zone := range []string{ClustersetZone, ClusterZone} {
		if before, found := strings.CutSuffix(rest, ".svc."+zone); found {
			rest, n.Zone = before+".svc", zone
		}
	}
	labels := strings.Split(rest, ".")
	if len(labels) > 2 && strings.HasPrefix(labels[0], "_") && strings.HasPrefix(labels[1], "_") {
		n.Port, n.Protocol, labels = labels[0][1:], labels[1][1:], labels[2:]
	}
	if !n.parts(labels, namespace) || !n.valid(labels) {
		if before, zone, found := strings.Cut(rest, ".svc."); found {
			return Name{}, fmt.Errorf("%q ends with %s: explain knows the zones %s and %s only, also where the cluster domain is another: ask for %s.svc.%s",
				text, zone, ClustersetZone, ClusterZone, before, ClustersetZone)
		}
		return Name{}, fmt.Errorf("%q is not the name of a Service: the forms are %s", text, Forms)
	}
	return n, nil
}

// parts reads the labels before the zone, and after those of a port. It reports whether their number is
// right.
func (n *Name) parts(labels []string, namespace string) bool {
	withSvc := len(labels) > 2 && labels[len(labels)-1] == "svc"
	if withSvc {
		labels = labels[:len(labels)-1]
	}
	last := len(labels)
	switch {
	case last == 1 && n.Zone == "":
		n.Service, n.Namespace = labels[0], namespace
	case last == 2:
		n.Service, n.Namespace = labels[0], labels[1]
	case last > 3 && withSvc && n.Port == "":
		n.Host, n.Cluster = labels[0], strings.Join(labels[1:last-2], ".")
		n.Service, n.Namespace = labels[last-2], labels[last-1]
	default:
		return false
	}
	return true
}

func (n *Name) valid(labels []string) bool {
	for _, label := range append(labels, n.Service, n.Namespace) {
		if len(validation.IsDNS1123Label(label)) > 0 {
			return false
		}
	}
	return slices.Contains([]string{"", "tcp", "udp", "sctp"}, n.Protocol)
}

// In returns the complete name in a zone.
func (n Name) In(zone string) string {
	name := n.Service + "." + n.Namespace + ".svc." + zone
	switch {
	case n.Port != "":
		return "_" + n.Port + "._" + n.Protocol + "." + name
	case n.Host != "":
		return n.Host + "." + n.Cluster + "." + name
	}
	return name
}

// Import returns the namespace and the name of the import, for messages.
func (n Name) Import() string { return n.Namespace + "/" + n.Service }
