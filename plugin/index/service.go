package index

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Key names a service in the clusterset as a question does: <service>.<namespace>, each one DNS
// label in lower case. One string needs half the memory of two, and each import has one.
type Key string

// NewKey returns the key of the ServiceImport with this namespace and name.
func NewKey(namespace, name string) Key { return Key(name + "." + namespace) }

// Name returns the name of the ServiceImport, "" for an empty key.
func (k Key) Name() string {
	name, _, _ := strings.Cut(string(k), ".")
	return name
}

// Namespace returns the namespace of the ServiceImport, "" for an empty key.
func (k Key) Namespace() string {
	_, namespace, _ := strings.Cut(string(k), ".")
	return namespace
}

// Type is the type of a ServiceImport. It alone decides how a name is answered, with or without IPs
// (KEP-1645, service types).
type Type uint8

const (
	ClusterSetIP Type = iota // one set of virtual IPs
	Headless                 // the endpoints themselves
)

// Port is a named port, with the content of its SRV record. An unnamed port has no SRV record, and
// so no Port (SPEC 2.3.2).
type Port struct {
	Name     string // without the underscore, lower case, never empty
	Protocol string // tcp, udp or sctp
	Number   uint16 // never 0
}

// Service is the part of a ServiceImport that answers depend on.
type Service struct {
	Key
	Type  Type
	IPs   []netip.Addr // without a zone, IPv4 as IPv4
	Ports []Port
	// Managed is true if the controller manages the import: then only the managed slices of a
	// headless service count.
	Managed bool
}

// Entry is a Service in the form that is stored, so that a decoded object is garbage soon. The zero
// value is no service.
type Entry struct {
	Key
	block *block // unbuilt for a headless service
}

// Entry returns the stored form of the service. It keeps nothing of s except its strings.
func (s Service) Entry() Entry {
	switch {
	case s.Type == ClusterSetIP:
		return Entry{s.Key, virtualBlock(s)}
	case s.Managed:
		return Entry{s.Key, &block{key: s.Key, ports: noPorts, unbuilt: ofManagedSlices}}
	default:
		return Entry{s.Key, &block{key: s.Key, ports: noPorts, unbuilt: ofAllSlices}}
	}
}

// Headless reports whether the service has no virtual IPs.
func (e Entry) Headless() bool { return e.block.unbuilt != isBuilt }

// SliceID names an EndpointSlice.
type SliceID struct{ Namespace, Name string }

// Slice is the ready part of an EndpointSlice. All endpoints are in one cluster (KEP-1645,
// EndpointSlice).
type Slice struct {
	SliceID
	Service   string // the name of the ServiceImport, in the slice's namespace
	Managed   bool   // by the controller
	Standby   bool   // another cluster is preferred: only the names of the hosts exist
	Cluster   string // cluster ID: one or more labels in lower case. "": unknown; addresses count, and there are no host names
	Endpoints []Endpoint
	Ports     []Port // EndpointPort numbers: without a proxy, clients connect to the pods' own ports
}

// Endpoint is one address of a ready endpoint.
type Endpoint struct {
	Hostname string // one label in lower case, or "" for the one that HostLabel makes from Addr
	Addr     netip.Addr
}

// Key returns the key of the service that the slice belongs to.
func (s Slice) Key() Key { return NewKey(s.Namespace, s.Service) }

// normalize gives each endpoint a hostname if it can have one, and sorts the lists, whose order in
// a slice has no meaning.
func (s Slice) normalize() {
	for i, e := range s.Endpoints {
		if e.Hostname == "" && s.Cluster != "" {
			s.Endpoints[i].Hostname = HostLabel(e.Addr)
		}
	}
	slices.SortFunc(s.Endpoints, func(e, f Endpoint) int {
		return cmp.Or(strings.Compare(e.Hostname, f.Hostname), e.Addr.Compare(f.Addr))
	})
	slices.SortFunc(s.Ports, Port.compare)
}

func (p Port) compare(q Port) int {
	return cmp.Or(strings.Compare(p.Protocol, q.Protocol), strings.Compare(p.Name, q.Name), cmp.Compare(p.Number, q.Number))
}

// Equal reports whether s and t give the same answers.
func (s Slice) Equal(t Slice) bool {
	return s.SliceID == t.SliceID && s.Service == t.Service && s.Cluster == t.Cluster && s.Managed == t.Managed && s.Standby == t.Standby &&
		slices.Equal(s.Endpoints, t.Endpoints) && slices.Equal(s.Ports, t.Ports)
}
