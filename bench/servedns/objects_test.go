package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/miekg/dns"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

func importName(i int) measure.Name {
	return measure.Name{Namespace: "default", Name: fmt.Sprintf("service-%06d", i)}
}

// podsName is that of a headless import with so many endpoints.
func podsName(endpoints, i int) measure.Name {
	return measure.Name{Namespace: "default", Name: fmt.Sprintf("pods%04d-%06d", endpoints, i)}
}

// createImports creates those with the numbers from first to before last.
func createImports(b *testing.B, api client.Client, first, last int) {
	b.Helper()
	create(b, api, last-first, func(i int) client.Object {
		return measure.Import(importName(first+i), mcsv1beta1.ClusterSetIP, measure.IP(0, first+i))
	})
}

// create makes n objects, many at a time.
func create(b *testing.B, api client.Client, n int, object func(int) client.Object) {
	b.Helper()
	if err := measure.Parallel(b.Context(), measure.Writers, n, func(ctx context.Context, i int) error { return api.Create(ctx, object(i)) }); err != nil {
		b.Fatal(err)
	}
}

// question is one kind, with many names of it, that are asked in turn.
type question struct {
	name    string
	qtype   uint16
	names   []string
	rcode   int
	answers int
}

// Of each kind of headless service there are several, so that their memory is not always in the processor's cache.
const several = 10

var sizes = []int{10, 50, 100, 200}

const manyHosts = 1000

func createHeadless(b *testing.B, api client.Client) {
	b.Helper()
	all := measure.Headless(podsName(manyHosts, 0), manyHosts, 64, 0)
	for _, n := range sizes {
		for i := range several {
			all = append(all, measure.Headless(podsName(n, i), n, 64+i, 0)...)
		}
	}
	create(b, api, len(all), func(i int) client.Object { return all[i] })
}

func questionA(imports int) question {
	return question{name: "A", qtype: dns.TypeA, names: importNames(0, imports), answers: 1}
}

func importNames(first, last int) (all []string) {
	for i := first; i < last; i++ {
		all = append(all, importName(i).DNS())
	}
	return all
}

// questions are called as the table calls them.
func questions(imports int) []question {
	all := []question{
		questionA(imports),
		{name: "SRV-2-ports", qtype: dns.TypeSRV, names: importNames(0, imports), answers: 2},
		{name: "NXDOMAIN", qtype: dns.TypeA, names: importNames(900_000, 900_000+imports), rcode: dns.RcodeNameError},
	}
	for _, n := range sizes {
		q := question{name: fmt.Sprintf("headless-%d", n), qtype: dns.TypeA, answers: n}
		for i := range several {
			q.names = append(q.names, podsName(n, i).DNS())
		}
		all = append(all, q)
	}
	q := question{name: fmt.Sprintf("host-of-%d", manyHosts), qtype: dns.TypeA, answers: 1}
	for i := range manyHosts {
		q.names = append(q.names, podsName(manyHosts, 0).Host(i))
	}
	return append(all, q)
}
