package index

import (
	"net/netip"
	"slices"
)

// Key names a service in the clusterset: the namespace and name of its ServiceImport, each one DNS label in lower case.
type Key struct{ Namespace, Name string }

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
}

// Equal says whether s and t would be answered alike.
func (s Service) Equal(t Service) bool {
	return s.Key == t.Key && s.Type == t.Type && slices.Equal(s.IPs, t.IPs) && slices.Equal(s.Ports, t.Ports)
}

// SliceID names an EndpointSlice.
type SliceID struct{ Namespace, Name string }

// Slice is the ready part of an EndpointSlice. All of it comes from one cluster (KEP-1645, EndpointSlice).
type Slice struct {
	SliceID
	Service   string // the ServiceImport's name, in the slice's own namespace
	Cluster   string // the cluster id: one or more labels in lower case. "": unknown; addresses count, host names cannot be made
	Endpoints []Endpoint
	Ports     []Port // EndpointPort numbers: a headless service has no proxy, so the pods' own port is the one that answers
}

// Endpoint is one address of a ready endpoint.
type Endpoint struct {
	Hostname string // one label in lower case, or "" for the one made from Addr
	Addr     netip.Addr
}

// Key is the key of the service that the slice belongs to.
func (s Slice) Key() Key { return Key{s.Namespace, s.Service} }

// Equal says whether s and t would be answered alike.
func (s Slice) Equal(t Slice) bool {
	return s.SliceID == t.SliceID && s.Service == t.Service && s.Cluster == t.Cluster &&
		slices.Equal(s.Endpoints, t.Endpoints) && slices.Equal(s.Ports, t.Ports)
}
