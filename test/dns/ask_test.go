package dns

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// patience is far more than any reply takes, so that only one that never comes fails.
const patience = 30 * time.Second

// exchange puts a question, such as "foo.default.svc.clusterset.local. A".
func exchange(network, address, question string) (*dns.Msg, error) {
	name, qtype, _ := strings.Cut(question, " ")
	return exchangeMessage(network, address, new(dns.Msg).SetQuestion(name, dns.StringToType[qtype]))
}

func exchangeMessage(network, address string, m *dns.Msg) (*dns.Msg, error) {
	m, _, err := (&dns.Client{Net: network, Timeout: patience}).Exchange(m, address)
	return m, err
}

// short is a reply's rcode, and the data of its answers in a fixed order: "NOERROR 10.0.0.1 10.0.0.2".
func short(m *dns.Msg) string {
	var all []string
	for _, rr := range m.Answer {
		all = append(all, data(rr))
	}
	slices.Sort(all)
	return strings.Join(append([]string{dns.RcodeToString[m.Rcode]}, all...), " ")
}

func data(rr dns.RR) string { return strings.TrimPrefix(rr.String(), rr.Header().String()) }

// whole is all that a reply says, in a fixed order, but for its id and the serial number.
func whole(m *dns.Msg) string {
	m = m.Copy()
	m.Id = 0
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if soa, ok := rr.(*dns.SOA); ok {
				soa.Serial = 0
			}
		}
		slices.SortFunc(section, func(a, b dns.RR) int { return strings.Compare(a.String(), b.String()) })
	}
	return m.String()
}

// differs gives an error unless a question is answered so, over UDP and TCP.
func differs(address, question, want string) error {
	for _, network := range []string{"udp", "tcp"} {
		if err := differsOver(network, address, question, want); err != nil {
			return err
		}
	}
	return nil
}

// differsOver is differs for one of the two.
func differsOver(network, address, question, want string) error {
	m, err := exchange(network, address, question)
	if err == nil && short(m) != want {
		err = fmt.Errorf("%s over %s is %s; want %s", question, network, short(m), want)
	}
	return err
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
