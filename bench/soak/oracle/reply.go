package oracle

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

// reply is the content of a message, as far as the oracle checks it.
type reply struct {
	rcode   int
	records []string // as those of a meaning
	serial  *uint32
}

// shows says whether the reply has all records of a state.
func (r reply) shows(m meaning) bool {
	return !slices.ContainsFunc(m.records, func(record string) bool { return !slices.Contains(r.records, record) })
}

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
	targets := map[string]bool{}
	for _, rr := range m.Answer {
		if rr.Header().Name != q.Name || rr.Header().Rrtype != q.Type {
			return r, fmt.Errorf("the record %q is of another name or type", rr)
		}
		r.add(rr, glue, targets)
	}
	for name := range glue {
		if !targets[name] {
			return r, fmt.Errorf("there is an address of %s, which no record leads to", name)
		}
	}
	return r, r.readAuthority(m)
}

func (r *reply) add(rr dns.RR, glue map[string][]netip.Addr, targets map[string]bool) {
	switch rr := rr.(type) {
	case *dns.A:
		r.records = append(r.records, rr.A.String())
	case *dns.AAAA:
		r.records = append(r.records, rr.AAAA.String())
	case *dns.SRV:
		r.records = append(r.records, srvRecord(rr.Port, rr.Target, glue[rr.Target]))
		targets[rr.Target] = true
	case *dns.SOA:
		r.serial = &rr.Serial
	}
}

func gluedTo(extra []dns.RR) (map[string][]netip.Addr, error) {
	glue := map[string][]netip.Addr{}
	for _, rr := range extra {
		var bytes []byte
		switch rr := rr.(type) {
		case *dns.A:
			bytes = rr.A.To4()
		case *dns.AAAA:
			bytes = rr.AAAA
		case *dns.OPT:
			continue
		}
		ip, ok := netip.AddrFromSlice(bytes)
		if !ok {
			return nil, fmt.Errorf("the additional section has %q", rr)
		}
		name := rr.Header().Name
		glue[name] = append(glue[name], ip)
		slices.SortFunc(glue[name], netip.Addr.Compare)
	}
	return glue, nil
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
	return fmt.Sprintf("%s, %d records %v", dns.RcodeToString[r.rcode], len(r.records), r.records[:min(len(r.records), 12)])
}
