package main

import (
	"fmt"

	"github.com/miekg/dns"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

// The first imports are in a namespace of their own, and so are the next: a server that watches fewer namespaces has fewer imports. All
// names are of one length: it is part of what a query costs.
const (
	fewNamespace      = "bench-a"
	someNamespace     = "bench-b"
	manyNamespace     = "bench-c"
	headlessNamespace = "bench-h"
)

var namespaces = []string{fewNamespace, someNamespace, manyNamespace, headlessNamespace}

// importName is that of the import number i, from 0.
func (p plan) importName(i int) measure.Name {
	name := fmt.Sprintf("service-%06d", i)
	switch {
	case i < p.imports.few:
		return measure.Name{Namespace: fewNamespace, Name: name}
	case i < p.imports.some:
		return measure.Name{Namespace: someNamespace, Name: name}
	default:
		return measure.Name{Namespace: manyNamespace, Name: name}
	}
}

func headlessName(endpoints, i int) measure.Name {
	return measure.Name{Namespace: headlessNamespace, Name: fmt.Sprintf("pods%03d-%06d", endpoints, i)}
}

// clusterSetIPs are imports from a number on.
func (p plan) clusterSetIPs(from int) func(int) []client.Object {
	return func(i int) []client.Object {
		return []client.Object{measure.Import(p.importName(from+i), mcsv1beta1.ClusterSetIP, measure.IP(0, from+i))}
	}
}

// headlessOf is headless imports with so many endpoints each.
func headlessOf(endpoints int) func(int) []client.Object {
	return func(i int) []client.Object {
		return measure.Headless(headlessName(endpoints, i), endpoints, 128, i*endpoints)
	}
}

// question is a kind of question, with many names of it.
type question struct {
	title   string
	names   []dns.Question
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
		{title: "SRV of both ports, with glue", names: p.importNames(p.imports.some, "", dns.TypeSRV), answers: len(measure.Ports)},
		{title: "NXDOMAIN", rcode: dns.RcodeNameError},
		{title: fmt.Sprintf("one host of a headless of %d", hostsOf), answers: 1},
	}
	for i := range p.imports.some {
		all[3].ask(measure.Name{Namespace: someNamespace, Name: fmt.Sprintf("missing-%06d", i)}.DNS())
	}
	for i := range p.headless {
		for e := range hostsOf {
			all[4].ask(headlessName(hostsOf, i).Host(e))
		}
	}
	for _, n := range headlessSizes {
		q := question{title: fmt.Sprintf("headless of %d", n), answers: n}
		if n > headlessSizes[0] {
			q.size = bigReplies
		}
		for i := range p.headless {
			q.ask(headlessName(n, i).DNS())
		}
		all = append(all, q)
	}
	return all
}

func (q *question) ask(name string) {
	q.names = append(q.names, dns.Question{Name: name, Qtype: dns.TypeA})
}

// importNames are those of the first imports, with a prefix.
func (p plan) importNames(count int, prefix string, qtype uint16) (all []dns.Question) {
	for i := range count {
		all = append(all, dns.Question{Name: prefix + p.importName(i).DNS(), Qtype: qtype})
	}
	return all
}
