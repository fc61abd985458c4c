package oracle

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/miekg/dns"
)

// Question is one question, and what it is about.
type Question struct {
	Name  string // in lower case
	Type  uint16
	about subject
	port  int // of an SRV question: the place of the port's name; All: every port
	slice int // of a question for a host: its slice; All: it is for the service
	host  int // and so is the position of the endpoint
}

// All are all ports, or all slices.
const All = -1

// subject is the names of one service, or names of which nothing changes.
type subject interface {
	// objects are what decides about the answers.
	objects() []*Object
	// means is what a state of an object means for a question.
	means(q Question, object int, s State) meaning
	// exists says whether there is the name, by whether the state of each object has it.
	exists(has []bool) bool
}

// meaning is what a state of an object means for a question.
type meaning struct {
	has     bool     // the name that is asked for
	records []string // that it has in the answer, if there is the name
}

// fixed is names that are always there, or never.
type fixed bool

func (fixed) objects() []*Object                 { return nil }
func (fixed) means(Question, int, State) meaning { return meaning{} }
func (f fixed) exists([]bool) bool               { return bool(f) }

// AskNothing is a question for a name that never exists.
func AskNothing(name string, qtype uint16) Question {
	return Question{Name: name, Type: qtype, about: fixed(false)}
}

// AskZone is a question for the zone's SOA record.
func AskZone() Question { return Question{Name: Zone, Type: dns.TypeSOA, about: fixed(true)} }

// VIP is a ServiceImport of type ClusterSetIP.
type VIP struct {
	*Object
	Name string // in DNS, with the final dot
	Dual bool   // it has an IPv6 address too
}

// Addresses are what its import has in a state.
func (v *VIP) Addresses(s State) []netip.Addr {
	switch {
	case s.Size == 0:
		return nil
	case v.Dual:
		return []netip.Addr{IPv4(s.Number), IPv6(s.Number)}
	default:
		return []netip.Addr{IPv4(s.Number)}
	}
}

// Ask is a question for its addresses, of type A or AAAA.
func (v *VIP) Ask(qtype uint16) Question { return Question{Name: v.Name, Type: qtype, about: v} }

// AskPort is an SRV question for one of its ports, by the place of its name in Ports, or for All.
func (v *VIP) AskPort(port int) Question {
	return Question{Name: portName(port, v.Name), Type: dns.TypeSRV, about: v, port: port}
}

func portName(port int, service string) string {
	if port == All {
		return service
	}
	return "_" + Ports[port] + "._tcp." + service
}

func (v *VIP) objects() []*Object     { return []*Object{v.Object} }
func (v *VIP) exists(has []bool) bool { return has[0] }

func (v *VIP) means(q Question, _ int, s State) (m meaning) {
	m.has = !s.Gone
	if q.Type == dns.TypeSRV {
		m.records = q.srv(s, v.Name, v.Addresses(s))
		return m
	}
	for _, ip := range v.Addresses(s) {
		if ip.Is4() == (q.Type == dns.TypeA) {
			m.records = append(m.records, ip.String())
		}
	}
	return m
}

// srv are the records for one target.
func (q Question) srv(s State, target string, addresses []netip.Addr) (records []string) {
	for port := range Ports {
		if q.port == All || q.port == port {
			records = append(records, srvRecord(Port(s.Number, port), target, addresses))
		}
	}
	return records
}

// srvRecord has the addresses that the additional section has for the target too, IPv4 first.
func srvRecord(port uint16, target string, addresses []netip.Addr) string {
	return fmt.Sprint(port, " ", target, " ", addresses)
}

// Headless is a ServiceImport of type Headless, with a slice of endpoints from each of some clusters.
type Headless struct {
	Import *Object
	Slices []*Object
	Name   string // in DNS, with the final dot
}

// Clusters are the ids of the clusters, in the order of the slices.
var Clusters = []string{"east", "west"}

// Hostname is that of an endpoint, by its place.
func Hostname(ordinal int) string { return "pod-" + strconv.Itoa(ordinal) }

// Ask is a question for the addresses of all endpoints, of type A or AAAA.
func (h *Headless) Ask(qtype uint16) Question {
	return Question{Name: h.Name, Type: qtype, about: h, slice: All}
}

// AskPort is an SRV question for one port of all endpoints, by the place of its name in Ports, or for All.
func (h *Headless) AskPort(port int) Question {
	return Question{Name: portName(port, h.Name), Type: dns.TypeSRV, about: h, port: port, slice: All}
}

// AskHost is a question for the address of one endpoint.
func (h *Headless) AskHost(slice, ordinal int) Question {
	return Question{Name: h.hostName(slice, ordinal), Type: dns.TypeA, about: h, slice: slice, host: ordinal}
}

func (h *Headless) hostName(slice, ordinal int) string {
	return Hostname(ordinal) + "." + Clusters[slice] + "." + h.Name
}

// objects are the import, then the slices.
func (h *Headless) objects() []*Object { return append([]*Object{h.Import}, h.Slices...) }

// exists: the import is there, and an endpoint.
func (h *Headless) exists(has []bool) bool {
	for _, endpoint := range has[1:] {
		if endpoint {
			return has[0]
		}
	}
	return false
}

func (h *Headless) means(q Question, object int, s State) (m meaning) {
	slice := object - 1
	switch {
	case object == 0:
		m.has = !s.Gone
	case q.slice == slice && q.host < s.Size:
		return meaning{true, []string{Endpoint(s.Number, q.host).String()}}
	case q.slice == All:
		m.has = s.Size > 0
		for i := range s.Size {
			switch ip := Endpoint(s.Number, i); q.Type {
			case dns.TypeA:
				m.records = append(m.records, ip.String())
			case dns.TypeSRV:
				m.records = append(m.records, q.srv(s, h.hostName(slice, i), []netip.Addr{ip})...)
			}
		}
	}
	return m
}

// An endpoint's address has 21 bits for the number of its slice's state, and the rest for its place.
const (
	maxSliceNumber = 1<<21 - 1
	ordinalBits    = 7
)

// SliceNumber makes a number for a state of a slice, by its place among the clusters, from a count. There are enough for a day.
func SliceNumber(count uint32, slice int) uint32 {
	number := count*uint32(len(Clusters)) + uint32(slice)
	if number > maxSliceNumber {
		panic("oracle: slices have changed more often than can be told apart")
	}
	return number
}

// Ports are the named ports of every import and slice.
var Ports = []string{"http", "metrics"}

// Port is the number of a port, the place of its name in Ports, in a state.
func Port(number uint32, port int) uint16 { return uint16(1024 + port*32000 + int(number%32000)) }

// IPv4 and IPv6 are the addresses of an import in a state.
func IPv4(number uint32) netip.Addr { return address4(10<<24 | number) }

// IPv6 is like IPv4.
func IPv6(number uint32) netip.Addr {
	ip := [16]byte{0: 0xfd, 2: 0x50, 3: 0xa0}
	binary.BigEndian.PutUint32(ip[12:], number)
	return netip.AddrFrom16(ip)
}

// Endpoint is the address of an endpoint of a slice in a state: 16.0.0.0/4 holds the number and the endpoint's place.
func Endpoint(number uint32, ordinal int) netip.Addr {
	return address4(1<<28 | number<<ordinalBits | uint32(ordinal))
}

func address4(bits uint32) netip.Addr {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], bits)
	return netip.AddrFrom4(ip)
}
