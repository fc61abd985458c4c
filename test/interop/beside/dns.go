package beside

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// Servers are the addresses of two CoreDNS on one cluster: one with our plugin, one with the in-tree one.
type Servers struct{ Ours, InTree string }

// Both have the same TTL, so that whole records compare.
const (
	ourCorefile = `.:{{.Port}} {
    bind 127.0.0.1
    multicluster clusterset.local {
        kubeconfig {{.Kubeconfig}}
        ttl 5
    }
}
`
	inTreeCorefile = `.:{{.Port}} {
    bind 127.0.0.1
    kubernetes cluster.local clusterset.local {
        kubeconfig {{.Kubeconfig}}
        multicluster clusterset.local
        ttl 5
    }
}
`
)

// StartServers starts both. They end with the cluster's test.
func StartServers(t *testing.T, c *kube.Cluster) (s Servers) {
	t.Helper()
	for corefile, address := range map[string]*string{ourCorefile: &s.Ours, inTreeCorefile: &s.InTree} {
		server, at, err := binaries.StartCoreDNS(t.Context(), c, "coredns", corefile)
		if err != nil {
			t.Fatalf("start CoreDNS: %v", err)
		}
		t.Cleanup(server.Stop)
		*address = at
	}
	return s
}

// Question is a name below a namespace, a type, and what both servers answer: an rcode and the data of the records, sorted.
type Question struct {
	Name string
	Type uint16
	Want string
}

// Answer waits until both servers give the wanted answers, and the same records.
func (s Servers) Answer(t *testing.T, namespace string, questions ...Question) {
	t.Helper()
	for _, q := range questions {
		name := q.Name + "." + namespace + ".svc.clusterset.local."
		kube.Eventually(t, name+" "+dns.TypeToString[q.Type], func() error {
			ours, err := ask(s.Ours, name, q.Type)
			if err != nil {
				return err
			}
			inTree, err := ask(s.InTree, name, q.Type)
			if err != nil {
				return err
			}
			if short(ours) != q.Want {
				return fmt.Errorf("%s; want %s", short(ours), q.Want)
			}
			if records(ours) != records(inTree) {
				return fmt.Errorf("the plugins differ:\n%s\nin-tree:\n%s", records(ours), records(inTree))
			}
			return nil
		})
	}
}

func ask(server, name string, kind uint16) (*dns.Msg, error) {
	client := &dns.Client{Timeout: 3 * time.Second}
	m, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, kind), server)
	return m, err
}

// short is the rcode and the data of the answers, sorted.
func short(m *dns.Msg) string {
	var data []string
	for _, rr := range m.Answer {
		data = append(data, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(data)
	return strings.Join(append([]string{dns.RcodeToString[m.Rcode]}, data...), " ")
}

// records is the rcode and all records of the answer and of the additional section, sorted.
func records(m *dns.Msg) string {
	text := dns.RcodeToString[m.Rcode]
	for _, section := range [][]dns.RR{m.Answer, m.Extra} {
		var lines []string
		for _, rr := range section {
			lines = append(lines, rr.String())
		}
		slices.Sort(lines)
		text += "\n[" + strings.Join(lines, "\n ") + "]"
	}
	return text
}
