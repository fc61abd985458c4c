package oracle

import "github.com/miekg/dns"

// AskNothing is a question for a name that never exists.
func AskNothing(name string, qtype uint16) Question {
	return Question{Name: name, Type: qtype, about: nothing{}}
}

// AskZone is a question for the zone's SOA record.
func AskZone() Question { return Question{Name: Zone, Type: dns.TypeSOA, about: apex{}} }

type nothing struct{}

func (nothing) objects() []*Object { return nil }

func (nothing) fits(_ Question, _ []window, r reply) ([]int, bool) { return nil, r.nameError() }

func (nothing) numbers(reply) [][]uint32 { return nil }

type apex struct{}

func (apex) objects() []*Object { return nil }

func (apex) fits(_ Question, _ []window, r reply) ([]int, bool) {
	return nil, r.rcode == dns.RcodeSuccess && r.empty() && r.serial != nil
}

func (apex) numbers(reply) [][]uint32 { return nil }
