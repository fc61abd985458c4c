// Package resolver asks DNS servers, as the tests of all packages do. A question is a text such as "foo.default.svc.clusterset.local. A".
package resolver

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Corefile is that of a server with our plugin alone, for binaries.StartCoreDNS.
const Corefile = `
clusterset.local:{{.Port}} {
    bind 127.0.0.1
    errors
    multicluster {
        kubeconfig {{.Kubeconfig}}
    }
}`

// Patience is far more than any reply takes, so that only one that never comes fails.
const Patience = 30 * time.Second

// Ask puts a question over "udp" or "tcp".
func Ask(network, address, question string) (*dns.Msg, error) {
	name, qtype, _ := strings.Cut(question, " ")
	return Exchange(network, address, new(dns.Msg).SetQuestion(name, dns.StringToType[qtype]))
}

// Exchange sends any message.
func Exchange(network, address string, m *dns.Msg) (*dns.Msg, error) {
	m, _, err := (&dns.Client{Net: network, Timeout: Patience}).Exchange(m, address)
	return m, err
}

// Short is a reply's rcode, and the data of its answers in a fixed order: "NOERROR 10.0.0.1 10.0.0.2".
func Short(m *dns.Msg) string {
	var all []string
	for _, rr := range m.Answer {
		all = append(all, Data(rr))
	}
	slices.Sort(all)
	return strings.Join(append([]string{dns.RcodeToString[m.Rcode]}, all...), " ")
}

// Data is a record without its name, TTL, class and type.
func Data(rr dns.RR) string { return strings.TrimPrefix(rr.String(), rr.Header().String()) }

// Differs gives an error unless a question has that short answer.
func Differs(network, address, question, want string) error {
	m, err := Ask(network, address, question)
	if err == nil && Short(m) != want {
		err = fmt.Errorf("%s over %s is %s; want %s", question, network, Short(m), want)
	}
	return err
}
