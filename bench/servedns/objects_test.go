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

func questionA(imports int) measure.Question {
	return measure.Question{Title: "A", Answers: 1}.Ask(dns.TypeA, imports, func(i int) string { return importName(i).DNS() })
}

// questions are called as the table calls them.
func questions(imports int) []measure.Question {
	all := []measure.Question{
		questionA(imports),
		measure.Question{Title: "SRV-2-ports", Answers: 2}.Ask(dns.TypeSRV, imports, func(i int) string { return importName(i).DNS() }),
		measure.Question{Title: "NXDOMAIN", Rcode: dns.RcodeNameError}.Ask(dns.TypeA, imports, func(i int) string { return importName(900_000 + i).DNS() }),
	}
	for _, n := range sizes {
		all = append(all, measure.Question{Title: fmt.Sprintf("headless-%d", n), Answers: n}.Ask(dns.TypeA, several, func(i int) string {
			return podsName(n, i).DNS()
		}))
	}
	return append(all, measure.Question{Title: fmt.Sprintf("host-of-%d", manyHosts), Answers: 1}.Ask(dns.TypeA, manyHosts, podsName(manyHosts, 0).Host))
}
