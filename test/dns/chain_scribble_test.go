package dns

import (
	"context"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// scribble is the worst plugin that could stand before ours: it hands a copy of the answer on, and then spoils all that it was given,
// with the room behind it. Whatever of that is shared with another client's answer, or with the index, is seen there. It keeps to the
// one rule of CoreDNS' plugins that we need: the records of long answers, from 16 addresses on, may be a backend's own.
type scribble struct{ next plugin.Handler }

const long = 16

func init() {
	plugin.Register("scribble", func(c *caddy.Controller) error {
		for c.Next() { // past its own name
		}
		dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler { return scribble{next} })
		return nil
	})
}

func (scribble) Name() string { return "scribble" }

func (s scribble) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	return s.next.ServeDNS(ctx, scribbler{w}, r)
}

type scribbler struct{ dns.ResponseWriter }

func (w scribbler) WriteMsg(m *dns.Msg) error {
	err := w.ResponseWriter.WriteMsg(m.Copy())
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		spare := section[len(section):cap(section)]
		if len(section) < long {
			for _, rr := range section {
				spoil(rr)
			}
			spare = section[:cap(section)]
		}
		for i := range spare {
			spare[i] = spoiled
		}
	}
	return err
}

var spoiled = &dns.TXT{Hdr: dns.RR_Header{Name: "spoiled.", Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{"spoiled"}}

func spoil(rr dns.RR) {
	h := rr.Header()
	h.Name, h.Ttl = "spoiled.", 666
	switch rr := rr.(type) {
	case *dns.A:
		clear(rr.A[:cap(rr.A)])
	case *dns.AAAA:
		clear(rr.AAAA[:cap(rr.AAAA)])
	case *dns.SRV:
		rr.Port, rr.Target = 666, "spoiled."
	case *dns.SOA:
		rr.Ns, rr.Serial = "spoiled.", 666
	case *dns.NS:
		rr.Ns = "spoiled."
	case *dns.TXT:
		rr.Txt[0] = "spoiled"
	}
}
