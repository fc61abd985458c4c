package dns

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

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
		if err := resolver.Differs(network, address, question, want); err != nil {
			return err
		}
	}
	return nil
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
