package oracle

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

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
	// fits looks for states of the objects, in their windows, that make the reply right. It gives their places; none where
	// the reply shows nothing of an object.
	fits(q Question, w []window, r reply) (shown []int, ok bool)
}

const none = -1

// reply is the content of a message, as far as the oracle checks it.
type reply struct {
	rcode     int
	addresses []netip.Addr
	targets   []target
	serial    *uint32
}

// target is what an SRV record leads to, with the addresses that the additional section has for it.
type target struct {
	host      string
	port      uint16
	addresses []netip.Addr
}

func (r reply) empty() bool { return len(r.addresses)+len(r.targets) == 0 }

func (r reply) nameError() bool { return r.rcode == dns.RcodeNameError && r.empty() }

func (r reply) noData() bool { return r.rcode == dns.RcodeSuccess && r.empty() }

// read takes a message apart. The error is about its form, whatever the world was like.
func read(q Question, m *dns.Msg) (reply, error) {
	r := reply{rcode: m.Rcode}
	switch {
	case len(m.Question) != 1 || m.Question[0].Name != q.Name || m.Question[0].Qtype != q.Type:
		return r, errors.New("the reply is to another question")
	case m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError:
		return r, nil // an error has no more to say
	case !m.Authoritative:
		return r, errors.New("the reply is not authoritative")
	case m.Truncated:
		return r, errors.New("the reply is truncated")
	}
	glue, err := gluedTo(m.Extra)
	if err != nil {
		return r, err
	}
	for _, rr := range m.Answer {
		if rr.Header().Name != q.Name || rr.Header().Rrtype != q.Type {
			return r, fmt.Errorf("the record %q is of another name or type", rr)
		}
		r.add(rr, glue)
	}
	if len(glue) > 0 {
		return r, errors.New("there are addresses of hosts that no record leads to")
	}
	return r, r.readAuthority(m)
}

// add takes the addresses of a record's target out of the glue, unless another port's record of that target follows.
func (r *reply) add(rr dns.RR, glue map[string][]netip.Addr) {
	switch rr := rr.(type) {
	case *dns.A:
		r.addresses = append(r.addresses, addrOf(rr.A))
	case *dns.AAAA:
		r.addresses = append(r.addresses, addrOf(rr.AAAA))
	case *dns.SOA:
		r.serial = &rr.Serial
	case *dns.SRV:
		addresses, ok := glue[rr.Target]
		if i := slices.IndexFunc(r.targets, func(t target) bool { return t.host == rr.Target }); !ok && i >= 0 {
			addresses = r.targets[i].addresses
		}
		delete(glue, rr.Target)
		r.targets = append(r.targets, target{rr.Target, rr.Port, addresses})
	}
}

func gluedTo(extra []dns.RR) (map[string][]netip.Addr, error) {
	glue := map[string][]netip.Addr{}
	for _, rr := range extra {
		name := rr.Header().Name
		switch rr := rr.(type) {
		case *dns.A:
			glue[name] = append(glue[name], addrOf(rr.A))
		case *dns.AAAA:
			glue[name] = append(glue[name], addrOf(rr.AAAA))
		case *dns.OPT:
		default:
			return nil, fmt.Errorf("the additional section has %q", rr)
		}
	}
	return glue, nil
}

func addrOf(ip []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// readAuthority wants the SOA that makes a negative answer what it is (RFC 2308 3), and nothing else.
func (r *reply) readAuthority(m *dns.Msg) error {
	negative := len(m.Answer) == 0
	if !negative && len(m.Ns) == 0 {
		return nil
	}
	if len(m.Ns) == 1 && negative {
		if soa, ok := m.Ns[0].(*dns.SOA); ok {
			r.serial = &soa.Serial
			return nil
		}
	}
	return fmt.Errorf("%d records, and %d in the authority section", len(m.Answer), len(m.Ns))
}

// String is the reply in short: of many records the first ones.
func (r reply) String() string {
	const most = 12
	return fmt.Sprintf("%s, %d addresses %v, %d targets %v", dns.RcodeToString[r.rcode],
		len(r.addresses), r.addresses[:min(len(r.addresses), most)], len(r.targets), r.targets[:min(len(r.targets), most)])
}
