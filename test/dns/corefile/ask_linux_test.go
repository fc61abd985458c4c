package corefile

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// server is where clients reach CoreDNS, without the port.
const server = "127.0.0.1"

// exchange asks one question, without EDNS.
func exchange(network, port, name string, qtype uint16) (*dns.Msg, error) {
	client := &dns.Client{Net: network, Timeout: 3 * time.Second}
	m, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, qtype), net.JoinHostPort(server, port))
	return m, err
}

// answersAt says whether anything answers on a port over UDP and TCP, whatever it answers. The question is for TXT: questionsCounted
// counts others, and a server counts a question after it has answered.
func answersAt(port string) func(context.Context) error {
	return func(context.Context) error {
		for _, network := range []string{"udp", "tcp"} {
			client := &dns.Client{Net: network, Timeout: 100 * time.Millisecond}
			if _, _, err := client.Exchange(new(dns.Msg).SetQuestion("is.anybody.there.", dns.TypeTXT), net.JoinHostPort(server, port)); err != nil {
				return err
			}
		}
		return nil
	}
}

// short is a reply's rcode, and the data of its answers in a fixed order: "NOERROR 10.0.0.1 10.0.0.2".
func short(m *dns.Msg) string {
	var data []string
	for _, rr := range m.Answer {
		data = append(data, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(data)
	return strings.Join(append([]string{dns.RcodeToString[m.Rcode]}, data...), " ")
}

// whole is all that a reply says, in a fixed order, but for its id and the serial number.
func whole(m *dns.Msg) string {
	text := fmt.Sprintf("%s aa=%t tc=%t ra=%t ad=%t", dns.RcodeToString[m.Rcode], m.Authoritative, m.Truncated, m.RecursionAvailable, m.AuthenticatedData)
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		var lines []string
		for _, rr := range section {
			if soa, ok := rr.(*dns.SOA); ok {
				soa.Serial = 0
			}
			lines = append(lines, rr.String())
		}
		slices.Sort(lines)
		text += "\n[" + strings.Join(lines, ", ") + "]"
	}
	return text
}

// wants waits until a question is answered so, over UDP and over TCP.
func wants(t *testing.T, name string, qtype uint16, want string) {
	t.Helper()
	wantsAt(t, "53", name, qtype, want)
}

func wantsAt(t *testing.T, port, name string, qtype uint16, want string) {
	t.Helper()
	for _, network := range []string{"udp", "tcp"} {
		wantsOver(t, network, port, name, qtype, want)
	}
}

func wantsOver(t *testing.T, network, port, name string, qtype uint16, want string) {
	t.Helper()
	what := fmt.Sprintf("%s %s over %s", name, dns.TypeToString[qtype], network)
	controlplane.Eventually(t, what, func() error {
		m, err := exchange(network, port, name, qtype)
		if err == nil && short(m) != want {
			err = fmt.Errorf("%s; want %s", short(m), want)
		}
		return err
	})
}

// ready is the HTTP status of the plugin `ready`.
func ready() (int, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 3 * time.Second}
	response, err := client.Get("http://127.0.0.1:8181/ready")
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func getsReady(t *testing.T) {
	t.Helper()
	controlplane.Eventually(t, "become ready", func() error {
		status, err := ready()
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
}

// upstreamIP is where /etc/resolv.conf leads: the rest of the world.
const upstreamIP = "10.99.0.8"

// upstream knows one name outside of the cluster, and remembers what it was asked.
type upstream struct {
	mu    sync.Mutex
	asked []string
}

func (u *upstream) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	name := r.Question[0].Name
	u.mu.Lock()
	u.asked = append(u.asked, name)
	u.mu.Unlock()
	m := new(dns.Msg).SetRcode(r, dns.RcodeNameError)
	for _, record := range []string{"www.example.org. 30 IN A 192.0.2.1", "1.2.0.192.in-addr.arpa. 30 IN PTR www.example.org."} {
		rr, _ := dns.NewRR(record)
		if rr.Header().Name != name {
			continue
		}
		m.Rcode = dns.RcodeSuccess
		if rr.Header().Rrtype == r.Question[0].Qtype {
			m.Answer = []dns.RR{rr}
		}
	}
	_ = w.WriteMsg(m)
}

// leaked are the clusterset names that it was asked for.
func (u *upstream) leaked() []string { return u.askedBelow("clusterset.local.") }

// askedBelow are the names of a zone that it was asked for.
func (u *upstream) askedBelow(zone string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(u.asked), func(name string) bool { return !strings.HasSuffix(name, "."+zone) && name != zone })
}

// startUpstream runs until the test's end. CoreDNS listens on the same port of all addresses: this one is more exact, and wins.
func startUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{}
	for _, network := range []string{"udp", "tcp"} {
		started := make(chan error, 1)
		s := &dns.Server{Net: network, Addr: net.JoinHostPort(upstreamIP, "53"), Handler: u, ReusePort: true, NotifyStartedFunc: func() { started <- nil }}
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
