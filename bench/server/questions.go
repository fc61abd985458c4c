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

// bigReplies is the reply size that clients of big headless services allow. Without it theirs would be cut, and the measurement one of
// cutting. All others ask without an OPT record, as pods do.
const bigReplies = 4096

var headlessSizes = []int{10, 50, 200}

// hostsOf is the size of the headless services whose single hosts are asked for.
const hostsOf = 50

func (p plan) questions() []measure.Question {
	all := []measure.Question{
		p.ofImports(measure.Question{Title: "A", Answers: 1}, dns.TypeA, ""),
		p.ofImports(measure.Question{Title: "SRV of a port, with glue", Answers: 1}, dns.TypeSRV, "_http._tcp."),
		p.ofImports(measure.Question{Title: "SRV of both ports, with glue", Answers: len(measure.Ports)}, dns.TypeSRV, ""),
		measure.Question{Title: "NXDOMAIN", Rcode: dns.RcodeNameError}.Ask(dns.TypeA, p.imports.some, func(i int) string {
			return measure.Name{Namespace: someNamespace, Name: fmt.Sprintf("missing-%06d", i)}.DNS()
		}),
		measure.Question{Title: fmt.Sprintf("one host of a headless of %d", hostsOf), Answers: 1}.Ask(dns.TypeA, p.headless*hostsOf, func(i int) string {
			return headlessName(hostsOf, i/hostsOf).Host(i % hostsOf)
		}),
	}
	for _, n := range headlessSizes {
		q := measure.Question{Title: fmt.Sprintf("headless of %d", n), Answers: n}
		if n > headlessSizes[0] {
			q.Size = bigReplies
		}
		all = append(all, q.Ask(dns.TypeA, p.headless, func(i int) string { return headlessName(n, i).DNS() }))
	}
	return all
}

// ofImports asks for some imports, with a prefix.
func (p plan) ofImports(q measure.Question, qtype uint16, prefix string) measure.Question {
	return q.Ask(qtype, p.imports.some, func(i int) string { return prefix + p.importName(i).DNS() })
}

// addresses asks for the first imports.
func (p plan) addresses(count int) measure.Question {
	return measure.Question{}.Ask(dns.TypeA, count, func(i int) string { return p.importName(i).DNS() })
}
