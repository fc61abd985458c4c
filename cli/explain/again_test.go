package explain

import (
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/cli/explain/chain"
)

// A server is asked again when its answers have expired, and not much later, whatever TTL it gives.
func TestCached(t *testing.T) {
	reply := func(texts ...string) *dns.Msg {
		m := new(dns.Msg)
		for _, text := range texts {
			record, err := dns.NewRR(text)
			if err != nil {
				t.Fatal(err)
			}
			if record.Header().Rrtype == dns.TypeSOA {
				m.Rcode, m.Ns = dns.RcodeNameError, append(m.Ns, record)
			} else {
				m.Answer = append(m.Answer, record)
			}
		}
		return m
	}
	for name, c := range map[string]struct {
		replies []*dns.Msg
		want    time.Duration
	}{
		"an answer":          {[]*dns.Msg{reply("x. 4 IN A 192.0.2.1"), reply("x. 2 IN AAAA 2001:db8::1")}, 5 * time.Second},
		"a negative answer":  {[]*dns.Msg{reply("x. 3 IN SOA ns. mail. 1 2 3 4 5")}, 4 * time.Second},
		"a TTL of two years": {[]*dns.Msg{reply("x. 63072000 IN A 192.0.2.1")}, longestCache},
		"no record":          {[]*dns.Msg{reply()}, time.Second},
	} {
		f := &chain.Facts{}
		f.DNS.Servers.Value = []chain.Server{{Answer: merge(c.replies)}, {}}
		if got := cached(f); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
