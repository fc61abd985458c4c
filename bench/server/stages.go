package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/bench/measure"
	"github.com/clusterset-dns/multicluster/test/kube"
	testworld "github.com/clusterset-dns/multicluster/test/world"
)

// world is a cluster, and what speaks to it.
type world struct {
	*kube.Cluster
	api client.Client
}

// measure measures what is to be measured, each stage in a cluster of its own.
func (b *bench) measure(ctx context.Context) {
	for _, stage := range []struct {
		name    string
		measure func(context.Context, *world)
	}{{"imports", b.onImports}, {"headless", b.onHeadless}, {"stock", b.onStock}} {
		b.say("%s: starting a cluster", stage.name)
		onWorld(ctx, stage.measure)
	}
}

// onWorld starts a cluster with the CRDs as the in-tree plugin needs them too, which reads v1alpha1 only, and empty namespaces.
func onWorld(ctx context.Context, do func(context.Context, *world)) {
	// Every five minutes an API server reads all imports from etcd, twice, and compares them with its cache. With 100 000 imports that
	// takes it up to 15 s of CPU: the first answer of whoever starts just then would be seconds later.
	c := measure.Must(kube.Start(ctx, kube.Options{APIServerFlags: []string{"--feature-gates=DetectCacheInconsistency=false"}}))
	defer func() { _ = c.Stop() }()
	measure.Check(c.InstallCRDs(ctx, kube.BothVersions))
	w := &world{c, measure.Must(client.New(c.Config, client.Options{Scheme: testworld.Scheme}))}
	for _, name := range namespaces {
		measure.Check(w.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	do(ctx, w)
}

// fill creates count times some objects, numbered from 0, and prints its progress.
func (b *bench) fill(ctx context.Context, w *world, what string, count int, objects func(int) []client.Object) {
	begin := time.Now()
	var done atomic.Int64
	measure.Check(measure.Parallel(ctx, measure.Writers, count, func(ctx context.Context, i int) error {
		for _, object := range objects(i) {
			if err := w.api.Create(ctx, object); err != nil {
				return fmt.Errorf("create %s: %w", object.GetName(), err)
			}
		}
		if n := int(done.Add(1)); n == count || n%10_000 == 0 {
			b.say("  %d of %d %s, %.0f s", n, count, what, time.Since(begin).Seconds())
		}
		return nil
	}))
}

const nothing = "no imports"

// onImports measures at no imports, some and many.
func (b *bench) onImports(ctx context.Context, w *world) {
	b.memory(ctx, w, nothing, replies)
	// 1. Some imports, and headless ones beside them: what a query costs.
	b.fill(ctx, w, "imports", b.imports.some, b.clusterSetIPs(0))
	for _, n := range headlessSizes {
		b.fill(ctx, w, fmt.Sprintf("headless imports of %d", n), b.headless, headlessOf(n))
	}
	b.compare(ctx, w)
	// 2. Many imports, and nothing else: what they weigh, and whether their number slows anything down.
	for _, kind := range []client.Object{&mcsv1beta1.ServiceImport{}, &discoveryv1.EndpointSlice{}} {
		measure.Check(w.api.DeleteAllOf(ctx, kind, client.InNamespace(headlessNamespace)))
	}
	b.fill(ctx, w, "more imports", b.imports.many-b.imports.some, b.clusterSetIPs(b.imports.some))
	b.memory(ctx, w, b.manyImports(), b.lastOf(b.imports.many), func() { b.onlyRead(ctx, w) })
	withoutStreaming(func() { b.memory(ctx, w, listed(b.manyImports()), b.lastOf(b.imports.many)) })
	b.sizes(ctx, w)
	// 3. Changes among many.
	b.serve(ctx, w, alike([]answerer{ours, inTree}, b.lastOf(b.imports.many)), func(servers []*server) { b.onChanges(ctx, w, servers) })
}

func (b *bench) manyImports() string { return grouped(b.imports.many) + " imports" }

// lastOf is a condition: that the last of so many imports is answered, in the order in which an API server lists them.
func (b *bench) lastOf(count int) func(string) error {
	return answers(dns.Question{Name: b.importName(count - 1).DNS(), Qtype: dns.TypeA}, 1)
}

// compare measures all questions, each with new servers: what the ready-made messages of other questions weigh would let the garbage
// collector run less often.
func (b *bench) compare(ctx context.Context, w *world) {
	for _, q := range b.questions() {
		b.serve(ctx, w, alike(everybody, b.lastOf(b.imports.some)), func(servers []*server) {
			for _, s := range servers {
				s.title = q.Title
			}
			b.askAll(ctx, servers, q)
		})
		b.say("  %s", q.Title)
	}
}

// sizes measures A of our plugin with few, some and many imports, side by side: it is the number of namespaces that it watches. First
// all are asked for the few names that they all have, then each for all that it has.
func (b *bench) sizes(ctx context.Context, w *world) {
	var setups []setup
	for _, of := range []struct {
		count   int
		watched string
	}{{b.imports.few, "namespaces " + fewNamespace}, {b.imports.some, "namespaces " + fewNamespace + " " + someNamespace}, {b.imports.many, ""}} {
		setups = append(setups, setup{who: ours, option: of.watched, imports: of.count, ready: b.lastOf(of.count)})
	}
	b.serve(ctx, w, setups, func(servers []*server) {
		same, own := newLoad(b.addresses(b.imports.few)), map[*server]*load{}
		for _, s := range servers {
			own[s] = newLoad(b.addresses(s.imports))
		}
		b.turns(ctx, servers, same, func(s *server) { b.ask(ctx, s, same, dns.RcodeSuccess, b.sameTitle(s.imports)) })
		b.turns(ctx, servers, own[servers[0]], func(s *server) { b.ask(ctx, s, own[s], dns.RcodeSuccess, b.ownTitle(s.imports)) })
		b.say("  A at three numbers of imports")
	})
}

func (b *bench) sameTitle(count int) string {
	return fmt.Sprintf("A, the same %d names, %s imports", b.imports.few, grouped(count))
}

func (b *bench) ownTitle(count int) string {
	return fmt.Sprintf("A, all names, %s imports", grouped(count))
}

// onHeadless measures what many headless imports with many endpoints weigh.
func (b *bench) onHeadless(ctx context.Context, w *world) {
	b.memory(ctx, w, nothing, replies)
	b.fill(ctx, w, "headless imports", b.manyHeadless, headlessOf(b.manyEndpoints))
	last := dns.Question{Name: headlessName(b.manyEndpoints, b.manyHeadless-1).DNS(), Qtype: dns.TypeA}
	b.memory(ctx, w, b.manyPods(), answers(last, b.manyEndpoints))
	withoutStreaming(func() { b.memory(ctx, w, listed(b.manyPods()), answers(last, b.manyEndpoints)) })
}

func (b *bench) manyPods() string {
	return fmt.Sprintf("%s headless of %d", grouped(b.manyHeadless), b.manyEndpoints)
}

// onStock measures queries through the stock Corefile, as users run it.
func (b *bench) onStock(ctx context.Context, w *world) {
	b.fill(ctx, w, "imports", b.imports.some, b.clusterSetIPs(0))
	b.fill(ctx, w, "headless imports", b.headless, headlessOf(hostsOf))
	for _, q := range b.stockQuestions() {
		b.serve(ctx, w, b.stockSetups(q), func(servers []*server) { b.askAll(ctx, servers, q) })
		b.say("  %s%s", inStock, q.Title)
	}
}

// The plugins that a query passes before the answerer. The stock ones are those of corefile-examples/stock.Corefile.
const (
	withoutCache = "errors\n prometheus 127.0.0.1:0\n loadbalance\n"
	stockPlugins = withoutCache + " cache 30 {\n  disable success cluster.local\n  disable denial cluster.local\n }\n"
)

// inStock begins the titles of samples through the stock Corefile.
const inStock = "stock Corefile: "

// stockSetups are who answers in the stock Corefile. Then it is ours alone: if cache keeps its answers, and without cache. With the option,
// a name in the zone could fall through, though none that is asked for does.
func (b *bench) stockSetups(q measure.Question) (setups []setup) {
	for _, s := range []setup{
		{who: ours, plugins: stockPlugins, title: q.Title},
		{who: inTree, plugins: stockPlugins, title: q.Title},
		{who: whoami, plugins: stockPlugins, title: q.Title},
		{who: ours, plugins: stockPlugins, option: "fallthrough none.clusterset.local", title: q.Title + ", if cache keeps it"},
		{who: ours, plugins: withoutCache, title: q.Title + ", without cache"},
	} {
		s.title, s.ready = inStock+s.title, b.lastOf(b.imports.some)
		setups = append(setups, s)
	}
	return setups
}

// stockQuestions are those that are asked through the stock Corefile.
func (p plan) stockQuestions() (asked []measure.Question) {
	for _, q := range p.questions() {
		if q.Title == "A" || q.Rcode == dns.RcodeNameError || q.Answers == hostsOf {
			asked = append(asked, q)
		}
	}
	return asked
}
