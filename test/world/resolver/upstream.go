package resolver

import (
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// Upstream is a server that has some records, such as "www.example.org. 30 IN A 192.0.2.1", and no other names. Below servfail, refused and
// silent it fails in that way. It remembers what it was asked.
type Upstream struct {
	records []dns.RR

	mu    sync.Mutex
	asked []string
}

// NewUpstream runs one over UDP and TCP until the test's end. Where a server listens on the same port of all addresses, this address is more
// exact, and wins.
func NewUpstream(t testing.TB, ip, port string, records ...string) *Upstream {
	t.Helper()
	u := &Upstream{}
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		u.records = append(u.records, rr)
	}
	for _, network := range []string{"udp", "tcp"} {
		started := make(chan error, 1)
		s := &dns.Server{Net: network, Addr: net.JoinHostPort(ip, port), Handler: u, ReusePort: true, NotifyStartedFunc: func() { started <- nil }}
		go func() {
			if err := s.ListenAndServe(); err != nil {
				started <- err
			}
		}()
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return u
}

// ServeDNS is a dns.Handler.
func (u *Upstream) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	q := r.Question[0]
	u.mu.Lock()
	u.asked = append(u.asked, q.Name)
	u.mu.Unlock()
	m := new(dns.Msg).SetRcode(r, dns.RcodeNameError)
	switch {
	case dns.IsSubDomain("servfail.", q.Name):
		m.Rcode = dns.RcodeServerFailure
	case dns.IsSubDomain("refused.", q.Name):
		m.Rcode = dns.RcodeRefused
	case dns.IsSubDomain("silent.", q.Name):
		return
	}
	for _, rr := range u.records {
		if rr.Header().Name != dns.CanonicalName(q.Name) {
			continue
		}
		m.Rcode = dns.RcodeSuccess
		if rr.Header().Rrtype == q.Qtype {
			m.Answer = append(m.Answer, dns.Copy(rr))
		}
	}
	_ = w.WriteMsg(m)
}

// AskedBelow are the names of a zone that it was asked for.
func (u *Upstream) AskedBelow(zone string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(u.asked), func(name string) bool { return !dns.IsSubDomain(zone, name) })
}
