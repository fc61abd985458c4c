package dns

import (
	"errors"
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

type rrset struct {
	name   string
	rrtype uint16
}

// checkSignatures: every set of records in our zone has the one signature that fits it, and a negative reply has its NSEC.
func (c *chain) checkSignatures(a ask, m *dns.Msg) error {
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		if err := c.checkSection(a, section); err != nil {
			return err
		}
	}
	if len(m.Answer) > 0 {
		return nil
	}
	for _, rr := range m.Ns {
		if rr.Header().Rrtype == dns.TypeNSEC && strings.EqualFold(rr.Header().Name, a.owner) {
			return nil
		}
	}
	return errors.New("no NSEC for the name")
}

func (c *chain) checkSection(a ask, section []dns.RR) error {
	sets, signatures := map[rrset][]dns.RR{}, map[rrset][]*dns.RRSIG{}
	for _, rr := range section {
		rr = asSigned(a, rr)
		h := rr.Header()
		if sig, ok := rr.(*dns.RRSIG); ok {
			key := rrset{strings.ToLower(h.Name), sig.TypeCovered}
			signatures[key] = append(signatures[key], sig)
		} else if dns.IsSubDomain(zone, h.Name) && h.Rrtype != dns.TypeOPT {
			key := rrset{strings.ToLower(h.Name), h.Rrtype}
			sets[key] = append(sets[key], rr)
		}
	}
	if len(sets) != len(signatures) {
		return fmt.Errorf("%d sets of records, and %d of signatures: %v", len(sets), len(signatures), section)
	}
	for key, set := range sets {
		if len(signatures[key]) != 1 {
			return fmt.Errorf("%d signatures for %s %s", len(signatures[key]), key.name, dns.TypeToString[key.rrtype])
		}
		if err := signatures[key][0].Verify(c.key.DNSKEY, set); err != nil {
			return fmt.Errorf("the signature of %s %s: %w", key.name, dns.TypeToString[key.rrtype], err)
		}
	}
	return nil
}

// asSigned takes back what was done to a record after dnssec had signed it: dns64 made it of an A record, or rewrite renamed it.
func asSigned(a ask, rr dns.RR) dns.RR {
	rr = dns.Copy(rr)
	if aaaa, ok := rr.(*dns.AAAA); ok && strings.HasPrefix(aaaa.AAAA.String(), "64:ff9b::") {
		h := aaaa.Hdr
		h.Rrtype = dns.TypeA
		rr = &dns.A{Hdr: h, A: aaaa.AAAA[12:]}
	}
	if a.form != rewritten {
		return rr
	}
	rr.Header().Name = strings.Replace(rr.Header().Name, rewriteZone, zone, 1)
	switch rr := rr.(type) {
	case *dns.SRV:
		rr.Target = strings.Replace(rr.Target, rewriteZone, zone, 1)
	case *dns.SOA:
		rr.Ns = strings.Replace(rr.Ns, rewriteZone, zone, 1)
	case *dns.NS:
		rr.Ns = strings.Replace(rr.Ns, rewriteZone, zone, 1)
	}
	return rr
}
