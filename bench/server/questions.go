package main

import (
	"fmt"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/bench/server/load"
)

// question is a kind of question, with many names of it.
type question struct {
	title   string
	names   []load.Question
	rcode   int
	answers int // records in the answer section of each reply
	size    uint16
}

// bigReplies is the reply size that clients of big headless services allow. Without it theirs would be cut, and the measurement one of
// cutting. All others ask without an OPT record, as pods do.
const bigReplies = 4096

var headlessSizes = []int{10, 50, 200}

// hostsOf is the size of the headless services whose single hosts are asked for.
const hostsOf = 50

func (p plan) questions() []question {
	all := []question{
		{title: "A", names: p.importNames(p.imports.some, "", dns.TypeA), answers: 1},
		{title: "SRV of a port, with glue", names: p.importNames(p.imports.some, "_http._tcp.", dns.TypeSRV), answers: 1},
		{title: "SRV of both ports, with glue", names: p.importNames(p.imports.some, "", dns.TypeSRV), answers: len(ports)},
		{title: "NXDOMAIN", names: p.missing(), rcode: dns.RcodeNameError},
		{title: fmt.Sprintf("one host of a headless of %d", hostsOf), names: p.hosts(), answers: 1},
	}
	for _, n := range headlessSizes {
		q := question{title: fmt.Sprintf("headless of %d", n), answers: n}
		if n > headlessSizes[0] {
			q.size = bigReplies
		}
		for i := range p.headless {
			q.names = append(q.names, load.Question{Name: headlessKey(n, i).dnsName(), Type: dns.TypeA})
		}
		all = append(all, q)
	}
	return all
}

// importNames are those of the first imports, with a prefix.
func (p plan) importNames(count int, prefix string, qtype uint16) (all []load.Question) {
	for i := range count {
		all = append(all, load.Question{Name: prefix + p.importKey(i).dnsName(), Type: qtype})
	}
	return all
}

func (p plan) missing() (all []load.Question) {
	for i := range p.imports.some {
		k := key{someNamespace, fmt.Sprintf("missing-%06d", i)}
		all = append(all, load.Question{Name: k.dnsName(), Type: dns.TypeA})
	}
	return all
}

func (p plan) hosts() (all []load.Question) {
	for i := range p.headless {
		for e := range hostsOf {
			name := hostname(e) + "." + clusterOf(e) + "." + headlessKey(hostsOf, i).dnsName()
			all = append(all, load.Question{Name: name, Type: dns.TypeA})
		}
	}
	return all
}
