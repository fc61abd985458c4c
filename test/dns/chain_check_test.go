package dns

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// reply contains the sections of a message, without their order.
type reply struct {
	Rcode             string
	Answer, Ns, Extra []string
}

// want is the one right reply to a question: that of the world, as the plugins of the chain are known to change it.
func (c *chain) want(a ask) reply {
	answer, glue, rcode := a.filled(a.answer), a.filled(a.glue), a.rcode
	if c.synthesises(a) {
		answer = a.filled(synthesised(c.v4[a.below]))
	}
	ns := []string{}
	switch {
	case len(answer) > 0 && a.form == path:
		answer = append(answer, a.name+" CNAME "+a.owner)
	case len(answer) > 0:
	case rcode == dns.RcodeNameError && c.signs && a.do: // dnssec says no with a signed NODATA
		rcode, ns = dns.RcodeSuccess, a.filled([]string{negative})
	case rcode == dns.RcodeNameError && a.form == path: // the end of the search path: its first reply
		ns = []string{"cluster.local. SOA ns.dns.cluster.local."}
	default:
		ns = a.filled([]string{negative})
	}
	if c.minimal {
		glue = nil
	}
	return reply{dns.RcodeToString[rcode], answer, ns, glue}.sorted(c.folds(a))
}

// synthesises says whether dns64 makes the answer.
func (c *chain) synthesises(a ask) bool {
	return c.dns64 && a.qtype == dns.TypeAAAA && a.rcode == dns.RcodeSuccess && len(a.answer) == 0
}

// synthesised is the AAAA records that A records become (RFC 6052 2.2).
func synthesised(records []string) (all []string) {
	prefix := netip.MustParseAddr("64:ff9b::").As16()
	for _, r := range records {
		v4 := netip.MustParseAddr(strings.TrimPrefix(r, "@ A ")).As4()
		copy(prefix[12:], v4[:])
		all = append(all, "@ AAAA "+netip.AddrFrom16(prefix).String())
	}
	return all
}

// folds reports whether the plugins lose the case of the question: cache keeps the case of the
// first client, and rewrite and dns64 ask in lower case.
func (c *chain) folds(a ask) bool { return c.caches || a.form == rewritten || c.synthesises(a) }

func (r reply) sorted(fold bool) reply {
	for _, section := range []*[]string{&r.Answer, &r.Ns, &r.Extra} {
		*section = append([]string{}, *section...)
		for i, text := range *section {
			if fold {
				(*section)[i] = strings.ToLower(text)
			}
		}
		slices.Sort(*section)
	}
	return r
}

// said returns the content of a message, without what is checked elsewhere: its OPT record, and in
// a signed reply signatures and NSEC records.
func said(m *dns.Msg, signed, fold bool) reply {
	texts := func(section []dns.RR) (all []string) {
		for _, rr := range section {
			if rr.Header().Rrtype != dns.TypeOPT && (!signed || !isProof(rr)) {
				all = append(all, text(rr))
			}
		}
		return all
	}
	return reply{dns.RcodeToString[m.Rcode], texts(m.Answer), texts(m.Ns), texts(m.Extra)}.sorted(fold)
}

func isProof(rr dns.RR) bool {
	return rr.Header().Rrtype == dns.TypeRRSIG || rr.Header().Rrtype == dns.TypeNSEC
}

// text is a record without its TTL, and an SOA without its numbers.
func text(rr dns.RR) string {
	content := resolver.Data(rr)
	if soa, ok := rr.(*dns.SOA); ok {
		content = soa.Ns
	}
	return rr.Header().Name + " " + dns.TypeToString[rr.Header().Rrtype] + " " + content
}

// check returns what is wrong with a reply.
func (c *chain) check(a ask, m *dns.Msg) error {
	signed := c.signs && a.do
	want, got := c.want(a), said(m, signed, c.folds(a))
	errs := []error{c.checkHeader(a, m), checkOPT(a, m), c.checkTTLs(m)}
	switch {
	case m.Truncated:
		errs = append(errs, checkPart(want, got))
	default:
		if c.mayLackGlue(a, m, want) {
			errs = append(errs, checkPart(reply{want.Rcode, nil, nil, want.Extra}, reply{got.Rcode, nil, nil, got.Extra}))
			want.Extra = got.Extra
		}
		errs = append(errs, differ(want, got))
		if signed {
			errs = append(errs, c.checkSignatures(a, m))
		}
	}
	return errors.Join(errs...)
}

// mayLackGlue reports whether a reply over UDP would be too long with all addresses of the
// additional section: they are left out, and the reply is not truncated (RFC 2181 section 9). A
// cache gives it to clients over TCP too. The length of a reply that other plugins change later is
// not known here.
func (c *chain) mayLackGlue(a ask, m *dns.Msg, want reply) bool {
	switch {
	case len(want.Extra) == 0:
		return false
	case c.caches:
		return true
	case a.network != "udp":
		return false
	case c.signs || a.form != plain:
		return true
	}
	whole := m.Copy()
	whole.Compress = true
	whole.Extra = slices.DeleteFunc(whole.Extra, func(rr dns.RR) bool { return rr.Header().Rrtype != dns.TypeOPT })
	for _, line := range want.Extra {
		name, rest, _ := strings.Cut(line, " ")
		rr, err := dns.NewRR(name + " 5 IN " + rest)
		if err != nil {
			return false
		}
		whole.Extra = append(whole.Extra, rr)
	}
	return whole.Len() > int(max(a.size, dns.MinMsgSize))
}

func (c *chain) checkHeader(a ask, m *dns.Msg) error {
	question := dns.Question{Name: a.name, Qtype: a.qtype, Qclass: dns.ClassINET}
	if m.Id != a.id || !m.Response || m.Opcode != dns.OpcodeQuery || !m.RecursionDesired || len(m.Question) != 1 || m.Question[0] != question {
		return fmt.Errorf("not a reply to this question, but to %+v %+v", m.MsgHdr, m.Question)
	}
	if !m.Authoritative && !c.synthesises(a) {
		return errors.New("not authoritative")
	}
	return nil
}

// checkOPT: the OPT of a reply is made from that of its own question, and there is none without.
func checkOPT(a ask, m *dns.Msg) error {
	got := []string{}
	for _, rr := range m.Extra {
		if opt, ok := rr.(*dns.OPT); ok {
			got = append(got, fmt.Sprintf("size %d do %t", opt.UDPSize(), opt.Do()))
		}
	}
	want := []string{}
	if a.size > 0 {
		want = append(want, fmt.Sprintf("size %d do %t", a.size, a.do))
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("OPT is %q, want %q", got, want)
	}
	return nil
}

func (c *chain) checkTTLs(m *dns.Msg) error {
	for _, rr := range slices.Concat(m.Answer, m.Ns, m.Extra) {
		if ttl := rr.Header().Ttl; rr.Header().Rrtype != dns.TypeOPT && (ttl < c.ttl[0] || ttl > c.ttl[1]) {
			return fmt.Errorf("TTL is %d, want %d to %d: %v", ttl, c.ttl[0], c.ttl[1], rr)
		}
	}
	return nil
}

func differ(want, got reply) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("want (-) and got (+):\n%.2000s", diff)
	}
	return nil
}

// checkPart checks a truncated reply: it has nothing that the right one has not, and nothing twice.
func checkPart(want, got reply) error {
	if got.Rcode != want.Rcode {
		return fmt.Errorf("%s, want %s", got.Rcode, want.Rcode)
	}
	for _, s := range []struct{ want, got []string }{{want.Answer, got.Answer}, {want.Ns, got.Ns}, {want.Extra, got.Extra}} {
		left := s.want
		for _, text := range s.got {
			at, ok := slices.BinarySearch(left, text)
			if !ok {
				return fmt.Errorf("in a reply that has a part: %s, which is not in the whole, or twice", text)
			}
			left = left[at+1:] // both are sorted
		}
	}
	return nil
}
