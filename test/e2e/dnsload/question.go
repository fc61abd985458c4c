// Package dnsload asks a DNS server as fast as it answers, and compares every answer with the one that is right.
//
//	Question   what to ask, and the right answer
//	Run        asks until it is enough, by many clients at once
//	Result     how many answers there were, how long they took, and each that was wrong or missing, with its time
//
// Each client has one question open at a time. Most take a new socket after a few questions, as the resolvers of programs do; some
// keep theirs, as forwarders do; some ask over TCP. A question that has no answer within the patience has failed. It is asked once
// more, to know whether a resolver's second try would have helped, but that is not counted as its answer.
//
// run/ is the program: it reads the questions from its standard input, and prints the result, both as JSON.
package dnsload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Question is a name and a type, and the right answer.
type Question struct {
	Name  string
	Type  string   // such as AAAA
	Rcode string   // such as NXDOMAIN
	Data  []string // of the records of the type, as dig +short prints it
	More  bool     // there may be other records beside them
}

func (q Question) String() string { return q.Type + " " + q.Name }

// message is the question as it is sent. Its id has to be set.
func (q Question) message() (*dns.Msg, error) {
	kind, ok := dns.StringToType[q.Type]
	if _, known := dns.StringToRcode[q.Rcode]; !ok || !known {
		return nil, fmt.Errorf("question %s: there is no type %q, or no rcode %q", q.Name, q.Type, q.Rcode)
	}
	return new(dns.Msg).SetQuestion(dns.Fqdn(q.Name), kind).SetEdns0(1232, false), nil
}

// check compares an answer. Records of other types are no matter: autopath's CNAME, say.
func (q Question) check(answer *dns.Msg) error {
	if got := dns.RcodeToString[answer.Rcode]; got != q.Rcode {
		return fmt.Errorf("%s, want %s", got, q.Rcode)
	}
	if answer.Truncated {
		return fmt.Errorf("truncated, with %d records", len(answer.Answer))
	}
	var got []string
	for _, record := range answer.Answer {
		if record.Header().Rrtype == dns.StringToType[q.Type] {
			got = append(got, data(record))
		}
	}
	for _, want := range q.Data {
		if !slices.Contains(got, want) {
			return fmt.Errorf("%q, want %q", got, q.Data)
		}
	}
	if len(got) != len(q.Data) && !q.More {
		return fmt.Errorf("%q, want %q and nothing else", got, q.Data)
	}
	return nil
}

// data is what stands behind a record's type.
func data(record dns.RR) string {
	switch r := record.(type) {
	case *dns.A:
		return r.A.String()
	case *dns.AAAA:
		return r.AAAA.String()
	}
	return strings.TrimPrefix(record.String(), record.Header().String())
}
