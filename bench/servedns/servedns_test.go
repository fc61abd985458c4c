package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	"github.com/miekg/dns"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/bench/measure"
	_ "github.com/clusterset-dns/multicluster/plugin"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world"
)

// BenchmarkServeDNS measures what a plugin does for a question, without the server around it, in a process that has both plugins:
// both watch the same API server, and answer the same questions.
func BenchmarkServeDNS(b *testing.B) {
	c := kube.New(b, kube.Options{ServiceCIDRs: "10.255.0.0/24"})
	if err := c.InstallCRDs(b.Context(), kube.BothVersions); err != nil { // the in-tree plugin reads v1alpha1 only
		b.Fatal(err)
	}
	api, err := client.New(c.Config, client.Options{Scheme: world.Scheme})
	if err != nil {
		b.Fatal(err)
	}
	our, stopOurs := serve(b, c, "multicluster clusterset.local", "udp_size 65535")
	defer stopOurs()

	createImports(b, api, 0, 100)
	benchmark(b, 100, questionA(100), ours, our)

	createImports(b, api, 100, 10_000)
	createHeadless(b, api)
	theirs, stopInTree := serve(b, c, "kubernetes clusterset.local", "multicluster clusterset.local")
	for _, q := range questions(10_000) {
		benchmark(b, 10_000, q, ours, our)
		benchmark(b, 10_000, q, inTree, theirs)
	}
	stopInTree() // its memory, and its work for each new import, would be in the last figure

	createImports(b, api, 10_000, 100_000)
	benchmark(b, 100_000, questionA(100_000), ours, our)
}

// benchmark asks the names of a question in turn.
func benchmark(b *testing.B, imports int, q measure.Question, name string, h plugin.Handler) {
	var messages []*dns.Msg
	for _, n := range q.Names {
		m := new(dns.Msg).SetQuestion(n.Name, n.Qtype).SetEdns0(dns.MaxMsgSize, false) // so that every answer fits
		kube.Eventually(b, fmt.Sprintf("%s answers %s", name, n.Name), func() error { return answers(b, h, m, q) })
		messages = append(messages, m)
	}
	b.Run(fmt.Sprintf("imports=%d/question=%s/plugin=%s", imports, q.Title, name), func(b *testing.B) {
		ctx, w, i := b.Context(), &writer{}, 0
		b.ReportAllocs()
		for b.Loop() {
			if _, err := h.ServeDNS(ctx, w, messages[i%len(messages)]); err != nil {
				b.Fatal(err)
			}
			i++
		}
		if w.wrote != i {
			b.Fatalf("%d replies to %d questions", w.wrote, i)
		}
	})
}

// answers says whether the answer is the expected one: what answers less would be faster.
func answers(b *testing.B, h plugin.Handler, m *dns.Msg, q measure.Question) error {
	w := &writer{}
	if _, err := h.ServeDNS(b.Context(), w, m); err != nil {
		return err
	}
	if w.last == nil || w.last.Rcode != q.Rcode || len(w.last.Answer) != q.Answers {
		return fmt.Errorf("answered %v", w.last)
	}
	return nil
}

// writer is a client over UDP whose replies are not packed: that is the server's work.
type writer struct {
	dns.ResponseWriter // nil: what a plugin does not call costs nothing here
	wrote              int
	last               *dns.Msg
}

func (w *writer) WriteMsg(m *dns.Msg) error {
	w.wrote, w.last = w.wrote+1, m
	return nil
}

var client53, server53 = &net.UDPAddr{IP: net.IPv4(10, 240, 0, 1), Port: 40212}, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 53}

func (w *writer) RemoteAddr() net.Addr { return client53 }
func (w *writer) LocalAddr() net.Addr  { return server53 }

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

// The order of plugins is that of CoreDNS, with ours where plugin.cfg.patch puts it, and before both the one that takes hold of them.
func init() {
	caddy.Quiet, dnsserver.Quiet = true, true
	at := slices.Index(dnsserver.Directives, "kubernetes")
	order := slices.Insert(slices.Clone(dnsserver.Directives), at+1, "multicluster")
	dnsserver.Directives = slices.Insert(order, at, "takenext")
	plugin.Register("takenext", func(c *caddy.Controller) error {
		dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
			taken = next
			return next
		})
		return nil
	})
}

// taken is the plugin behind the last takenext that was set up: made by its own setup, from a Corefile, as in a real server.
var taken plugin.Handler

// serve runs CoreDNS with one plugin, and gives that plugin. It ends with the benchmark or with stop.
func serve(b *testing.B, c *kube.Cluster, block, property string) (h plugin.Handler, stop func()) {
	b.Helper()
	corefile := ".:0 {\n bind 127.0.0.1\n takenext\n " + block + " {\n kubeconfig " + c.Kubeconfig + "\n " + property + "\n }\n}"
	instance, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"})
	if err != nil {
		b.Fatal(err)
	}
	stop = func() {
		for _, err := range instance.ShutdownCallbacks() {
			b.Error(err)
		}
		if err := instance.Stop(); err != nil {
			b.Error(err)
		}
	}
	return taken, stop
}
