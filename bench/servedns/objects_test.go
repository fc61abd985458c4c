package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// writers keep an API server on two cores busy, without queueing up there.
const writers = 32

const namespace = "default"

func below(label string) string { return label + "." + namespace + ".svc.clusterset.local." }

func importName(i int) string { return fmt.Sprintf("service-%06d", i) }

func ipOf(network, i int) string {
	return netip.AddrFrom4([4]byte{10, byte(network + i>>16), byte(i >> 8), byte(i)}).String()
}

// newImport has two named ports.
func newImport(name string, kind mcsv1beta1.ServiceImportType, ips ...string) *mcsv1beta1.ServiceImport {
	made := &mcsv1beta1.ServiceImport{ObjectMeta: meta(name), Spec: mcsv1beta1.ServiceImportSpec{Type: kind, IPs: ips}}
	for i, port := range []string{"http", "metrics"} {
		made.Spec.Ports = append(made.Spec.Ports, mcsv1beta1.ServicePort{Name: port, Protocol: corev1.ProtocolTCP, Port: int32(80 + i)})
	}
	return made
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }

// headless is a service of n endpoints, its EndpointSlices not larger than Kubernetes' own controllers make them.
type headless struct{ endpoints, number int }

const sliceSize = 100

func (h headless) name() string { return fmt.Sprintf("pods%04d-%06d", h.endpoints, h.number) }

// host is the name of one endpoint.
func (h headless) host(i int) string {
	return fmt.Sprintf("pod-%04d.member-%d.%s", i, i/sliceSize, h.name())
}

func (h headless) objects() []client.Object {
	all := []client.Object{newImport(h.name(), mcsv1beta1.Headless)}
	for from := 0; from < h.endpoints; from += sliceSize {
		all = append(all, h.slice(from, min(from+sliceSize, h.endpoints)))
	}
	return all
}

func (h headless) slice(from, to int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: meta(fmt.Sprintf("%s-%04d", h.name(), from)), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels = map[string]string{
		mcsv1beta1.LabelServiceName:   h.name(),
		mcsv1beta1.LabelSourceCluster: fmt.Sprintf("member-%d", from/sliceSize),
	}
	for i := from; i < to; i++ {
		hostname := fmt.Sprintf("pod-%04d", i)
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ipOf(64+h.number, i)}, Hostname: &hostname})
	}
	name, number := "http", int32(8080)
	s.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &number}}
	return s
}

// newClient is an administrator's.
func newClient(b *testing.B, c *controlplane.Cluster) client.Client {
	b.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, mcsv1beta1.Install} {
		if err := add(known); err != nil {
			b.Fatal(err)
		}
	}
	api, err := client.New(c.Config, client.Options{Scheme: known})
	if err != nil {
		b.Fatal(err)
	}
	return api
}

// createImports creates those with the numbers from first to before last.
func createImports(b *testing.B, api client.Client, first, last int) {
	b.Helper()
	create(b, api, last-first, func(i int) client.Object {
		return newImport(importName(first+i), mcsv1beta1.ClusterSetIP, ipOf(0, first+i))
	})
}

// create makes n objects, many at a time.
func create(b *testing.B, api client.Client, n int, object func(int) client.Object) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var next atomic.Int64
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := api.Create(ctx, object(int(i))); err != nil && ctx.Err() == nil {
					b.Error(err)
					cancel()
				}
			}
		})
	}
	running.Wait()
	if b.Failed() {
		b.FailNow()
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

var manyHosts = headless{1000, 0}

func createHeadless(b *testing.B, api client.Client) {
	b.Helper()
	all := manyHosts.objects()
	for _, n := range sizes {
		for i := range several {
			all = append(all, headless{n, i}.objects()...)
		}
	}
	create(b, api, len(all), func(i int) client.Object { return all[i] })
}

func questionA(imports int) question {
	return question{name: "A", qtype: dns.TypeA, names: importNames(0, imports), answers: 1}
}

func importNames(first, last int) (all []string) {
	for i := first; i < last; i++ {
		all = append(all, below(importName(i)))
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
			q.names = append(q.names, below(headless{n, i}.name()))
		}
		all = append(all, q)
	}
	q := question{name: fmt.Sprintf("host-of-%d", manyHosts.endpoints), qtype: dns.TypeA, answers: 1}
	for i := range manyHosts.endpoints {
		q.names = append(q.names, below(manyHosts.host(i)))
	}
	return append(all, q)
}
