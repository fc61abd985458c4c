package oracle

import (
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

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

func (v *VIP) objects() []*Object { return []*Object{v.Object} }

func (v *VIP) fits(q Question, w []window, r reply) ([]int, bool) {
	i, ok := w[0].find(func(s State) bool { return v.fitsState(q, s, r) })
	return []int{i}, ok
}

func (v *VIP) fitsState(q Question, s State, r reply) bool {
	switch {
	case s.Gone:
		return r.nameError()
	case r.rcode != dns.RcodeSuccess:
		return false
	case q.Type == dns.TypeSRV:
		return len(r.addresses) == 0 && v.fitsTargets(q, s, r.targets)
	}
	return len(r.targets) == 0 && sameAddresses(r.addresses, ofFamily(v.Addresses(s), q.Type))
}

func (v *VIP) fitsTargets(q Question, s State, got []target) bool {
	var ports []uint16
	for _, t := range got {
		if t.host != v.Name || !sameAddresses(t.addresses, v.Addresses(s)) {
			return false
		}
		ports = append(ports, t.port)
	}
	return samePorts(ports, q.ports(s.Number))
}

// ports are the numbers that an SRV question asks for, in a state.
func (q Question) ports(number uint32) []uint16 {
	if q.port != All {
		return []uint16{Port(number, q.port)}
	}
	var numbers []uint16
	for port := range Ports {
		numbers = append(numbers, Port(number, port))
	}
	return numbers
}

func ofFamily(ips []netip.Addr, qtype uint16) []netip.Addr {
	var of []netip.Addr
	for _, ip := range ips {
		if ip.Is4() == (qtype == dns.TypeA) {
			of = append(of, ip)
		}
	}
	return of
}

func sameAddresses(got, want []netip.Addr) bool {
	if len(got) > 1 {
		got = slices.SortedFunc(slices.Values(got), netip.Addr.Compare)
	}
	return slices.Equal(got, want) // which has IPv4 first
}

func samePorts(got, want []uint16) bool {
	slices.Sort(got)
	return slices.Equal(got, want) // which is in the order of Ports, and so sorted
}
