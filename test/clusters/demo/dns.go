package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// searchPath is the resolver configuration of a pod in default whose dnsConfig has the one more search entry, clusterset.local.
var searchPath = &dns.ClientConfig{
	Search: []string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local", "clusterset.local"},
	Ndots:  5,
}

type question struct {
	name  string
	qtype uint16
	want  []string
}

func (s *stage) exchange(name string, qtype uint16) (*dns.Msg, error) {
	m := new(dns.Msg).SetQuestion(name, qtype)
	return dns.Exchange(m, s.dns)
}

// records is the answer section, a line a record, without TTL and class.
func records(m *dns.Msg) (lines []string) {
	for _, rr := range m.Answer {
		h := rr.Header()
		data := strings.Fields(strings.TrimPrefix(rr.String(), h.String()))
		lines = append(lines, strings.Join(append([]string{h.Name, dns.TypeToString[h.Rrtype]}, data...), " "))
	}
	return lines
}

// ask asks CoreDNS, shows what it answers, and checks it.
func (s *stage) ask(questions ...question) error {
	for _, q := range questions {
		m, err := s.exchange(q.name, q.qtype)
		if err != nil {
			return err
		}
		s.say("   $ %s +short %s %s\n", s.dig(), dns.TypeToString[q.qtype], q.name)
		for _, rr := range m.Answer {
			s.say("   %s\n", strings.Join(strings.Fields(strings.TrimPrefix(rr.String(), rr.Header().String())), " "))
		}
		s.check(fmt.Sprintf("%d record(s) of %s", len(q.want), q.name), sortedJoin(records(m)), sortedJoin(q.want))
	}
	return nil
}

// resolves is nil when the name has just these IPv4 addresses.
func (s *stage) resolves(name string, ips ...string) error {
	m, err := s.exchange(name, dns.TypeA)
	if err != nil {
		return err
	}
	var want []string
	for _, ip := range ips {
		want = append(want, name+" A "+ip)
	}
	if got := sortedJoin(records(m)); got != sortedJoin(want) {
		return fmt.Errorf("it has %q", got)
	}
	return nil
}

// walk asks for a name as a resolver does: each search entry in turn, then the name as it is, until one has an address
// (resolv.conf(5)). It shows each question and gives the first answer.
func (s *stage) walk(name string) (string, error) {
	for i, candidate := range searchPath.NameList(name) {
		m, err := s.exchange(candidate, dns.TypeA)
		if err != nil {
			return "", err
		}
		got := records(m)
		result := dns.RcodeToString[m.Rcode]
		if len(got) > 0 {
			result = strings.TrimPrefix(got[0], candidate+" ")
		}
		s.say("   question %d: %-50s %s\n", i+1, candidate, result)
		if len(got) > 0 {
			return got[0], nil
		}
	}
	return "", errors.New("no entry of the search path has an address")
}
