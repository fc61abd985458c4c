package index

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Key names a service in the clusterset, as a question does: <service>.<namespace>, each one DNS label in lower case. One string takes
// half the space of two, and there are two for each import.
type Key string

// NewKey is the key of the ServiceImport of that namespace and name.
func NewKey(namespace, name string) Key { return Key(name + "." + namespace) }

// Name is the ServiceImport's name; "" for no key.
func (k Key) Name() string {
	name, _, _ := strings.Cut(string(k), ".")
	return name
}

// Namespace is the ServiceImport's namespace; "" for no key.
func (k Key) Namespace() string {
	_, namespace, _ := strings.Cut(string(k), ".")
	return namespace
}

// Type is a ServiceImport's type. It alone decides how a name is answered, not whether there are IPs (KEP-1645, service types).
type Type uint8

const (
	ClusterSetIP Type = iota // one set of virtual IPs
	Headless                 // the endpoints themselves
)

// Port is a named port, with what an SRV record needs. An unnamed port has no SRV record and so no Port (SPEC 2.3.2).
type Port struct {
	Name     string // without the underscore, lower case, never empty
	Protocol string // tcp, udp or sctp
	Number   uint16 // never 0
}

// Service is what a ServiceImport says of its names.
type Service struct {
	Key
	Type  Type
	IPs   []netip.Addr // no zone, IPv4 as IPv4
	Ports []Port
	// Managed is by the controller: of a headless service's slices only those count that are Managed too.
	Managed bool
}

// Entry is a Service in the form that is held, so that what is read of an object is soon garbage. Its zero value is no service.
type Entry struct {
	Key
	block *block // of a ClusterSetIP service; nil or ofManaged for a headless one, whose block comes from its slices
}

// Entry returns what is held of the service. It keeps nothing of s but its strings.
func (s Service) Entry() Entry {
	e := Entry{Key: s.Key}
	switch {
	case s.Type == ClusterSetIP:
		e.block = virtualBlock(s)
	case s.Managed:
		e.block = ofManaged
	}
	return e
}

// SliceID names an EndpointSlice.
type SliceID struct{ Namespace, Name string }

// Slice is the ready part of an EndpointSlice. All of it comes from one cluster (KEP-1645, EndpointSlice).
type Slice struct {
	SliceID
	Service   string // the ServiceImport's name, in the slice's own namespace
	Managed   bool   // by the controller
	Cluster   string // the cluster id: one or more labels in lower case. "": unknown; addresses count, host names cannot be made
	Endpoints []Endpoint
	Ports     []Port // EndpointPort numbers: a headless service has no proxy, so the pods' own port is the one that answers
}

// Endpoint is one address of a ready endpoint.
type Endpoint struct {
	Hostname string // one label in lower case, or "" for the one made from Addr (HostLabel)
	Addr     netip.Addr
}

// Key is the key of the service that the slice belongs to.
func (s Slice) Key() Key { return NewKey(s.Namespace, s.Service) }

// normalize gives each endpoint that can have one a hostname, and sorts, as the order that a slice lists things in says nothing.
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

// Equal says whether s and t would be answered alike.
func (s Slice) Equal(t Slice) bool {
	return s.SliceID == t.SliceID && s.Service == t.Service && s.Cluster == t.Cluster && s.Managed == t.Managed &&
		slices.Equal(s.Endpoints, t.Endpoints) && slices.Equal(s.Ports, t.Ports)
}
