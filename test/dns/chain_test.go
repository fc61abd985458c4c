package dns

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coredns/coredns/coremain"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// chain is a server block, and what its plugins do to our answers.
type chain struct {
	name, plugins string
	option        string // of our plugin
	forms         []form
	ttl           [2]uint32 // the lowest and the highest that a record may have
	caches        bool
	minimal       bool
	signs         bool
	dns64         bool
	counters      []string // that have to rise before the clients stop

	udp, tcp string
	key      zoneKey
	v4       map[string][]string // the A records of each name
}

// chains begin with the one that has the kubernetes plugin: its setup sets the logger of all Kubernetes clients in the process, which
// no watch may be using by then.
var chains = []chain{
	{name: "all", plugins: "dns64 {\n allow_ipv4\n}\nloadbalance round_robin\n" + rewriteExample + "\nautopath @multicluster\n" +
		"cache {\n prefetch 2 1m 90%\n}\ndnssec clusterset.local {\n key file KEY\n}\nminimal\nkubernetes cluster.local {\n kubeconfig KUBECONFIG\n}",
		option: staysInCache, forms: []form{plain, rewritten, path}, ttl: [2]uint32{1, 5}, caches: true, minimal: true, signs: true, dns64: true,
		counters: []string{"coredns_cache_hits_total"}},
	{name: "alone", forms: []form{plain}, ttl: [2]uint32{5, 5}},
	{name: "scribble", plugins: "scribble", forms: []form{plain}, ttl: [2]uint32{5, 5}},
	{name: "loadbalance", plugins: "loadbalance round_robin", forms: []form{plain}, ttl: [2]uint32{5, 5}},
	{name: "minimal", plugins: "minimal", forms: []form{plain}, ttl: [2]uint32{5, 5}, minimal: true},
	passedOn(),
	{name: "cache", plugins: "cache 30", option: staysInCache, forms: []form{plain}, ttl: [2]uint32{1, 5}, caches: true,
		counters: []string{"coredns_cache_hits_total"}},
	// Everything expires after a second, so that much of what is asked for is stale or fetched anew.
	{name: "cache that prefetches", plugins: "cache {\n success 9984 1 1\n denial 9984 1 1\n prefetch 2 1m 90%\n serve_stale 1h\n}",
		option: staysInCache, forms: []form{plain}, ttl: [2]uint32{0, 1}, caches: true,
		counters: []string{"coredns_cache_hits_total", "coredns_cache_prefetch_total", "coredns_cache_served_stale_total"}},
	{name: "rewrite", plugins: rewriteExample + "\nrewrite ttl suffix clusterset.local. 30",
		forms: []form{plain, rewritten}, ttl: [2]uint32{30, 30}},
	{name: "dnssec", plugins: "dnssec clusterset.local {\n key file KEY\n}", forms: []form{plain}, ttl: [2]uint32{5, 5}, signs: true},
	{name: "dns64", plugins: "dns64 {\n allow_ipv4\n}", forms: []form{plain}, ttl: [2]uint32{5, 5}, dns64: true},
	{name: "autopath", plugins: "autopath @multicluster\nfile EMPTYZONE cluster.local",
		forms: []form{plain, path}, ttl: [2]uint32{5, 5}},
}

// staysInCache makes cache keep our answers: a name in the zone could fall through, though none that is asked for does.
const staysInCache = "fallthrough none.clusterset.local"

// passedOn is a chain whose cache passes our zone on. CoreDNS before 1.15 knows no such zones.
func passedOn() chain {
	c := chain{name: "cache that passes the zone on", plugins: "cache 30", forms: []form{plain}, ttl: [2]uint32{5, 5}}
	if slices.ContainsFunc([]string{"1.12.", "1.14."}, func(old string) bool { return strings.HasPrefix(coremain.CoreVersion, old) }) {
		c.ttl[0], c.caches = 1, true
	}
	return c
}

const rewriteExample = "rewrite continue {\n name suffix clusterset.example. clusterset.local. answer auto\n}"

// TestEachClientGetsItsOwnAnswer asks all chains while the index changes under them.
func TestEachClientGetsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	c := shared.Cluster(t)
	all := servedYAML() + "\n---\n" + tickerObject
	if err := c.Apply(t.Context(), "default", all); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.WithoutCancel(t.Context()), "default", all); err != nil {
			t.Error(err)
		}
	})
	key, seed := newZoneKey(t), rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range chains {
		ch := &chains[i]
		ch.key, ch.v4 = key, addressRecords()
		ch.udp, ch.tcp = start(t, c, ch.plugins, ch.option, key)
	}
	stop := keepChanging(t, c, chains[1].udp)
	t.Run("chains", func(t *testing.T) {
		for _, ch := range chains {
			t.Run(ch.name, func(t *testing.T) {
				t.Parallel()
				ch.askAll(t, seed)
			})
		}
	})
	if changes := stop(); changes < 10 {
		t.Errorf("the import beside the others changed %d times only", changes)
	}
}

func addressRecords() map[string][]string {
	of := map[string][]string{}
	for _, q := range questions() {
		if q.qtype == dns.TypeA {
			of[q.below] = q.answer
		}
	}
	return of
}

const clients = 8

// askAll lets clients put every question in the same order at the same time, each in its own ways, beside others at random.
func (c *chain) askAll(t *testing.T, seed uint64) {
	qs := questions()
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(qs), func(i, j int) { qs[i], qs[j] = qs[j], qs[i] })
	before := counted(t, c.counters)
	var all sync.WaitGroup
	for number := range uint64(clients) {
		all.Go(func() {
			client, err := newClient(c, seed, number+1)
			if err != nil {
				t.Error(err)
				return
			}
			defer client.close()
			for i := 0; (i < len(qs) || !risen(before, counted(t, c.counters))) && !t.Failed(); i++ {
				hot, other := qs[i%len(qs)], qs[client.rand.IntN(len(qs))]
				if err := client.burst([]question{hot, hot, other}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// counted is the sums of some metrics of CoreDNS.
func counted(t *testing.T, names []string) []float64 {
	if len(names) == 0 {
		return nil
	}
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Error(err)
	}
	sums := make([]float64, len(names))
	for i, name := range names {
		for _, f := range families {
			if f.GetName() != name {
				continue
			}
			for _, m := range f.GetMetric() {
				sums[i] += m.GetCounter().GetValue()
			}
		}
	}
	return sums
}

func risen(before, now []float64) bool {
	for i := range before {
		if now[i] <= before[i] {
			return false
		}
	}
	return true
}

const (
	ticker       = "ticker.default.svc.clusterset.local."
	tickerObject = `{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: ticker}, spec: {type: ClusterSetIP, ips: [10.9.0.0], ports: []}}`
)

// keepChanging gives one import another IP as soon as its last one is served, until it is stopped. It then gives the number of
// changes, each of which was a new index.
func keepChanging(t *testing.T, c *kube.Cluster, server string) (stop func() int) {
	t.Helper()
	api, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	imports := api.Resource(schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceimports"}).Namespace("default")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		changes := 0
		defer func() { done <- changes }()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			ip := fmt.Sprintf("10.9.%d.%d", changes/250%250, changes%250+1)
			patch := fmt.Appendf(nil, `{"spec":{"ips":[%q]}}`, ip)
			if _, err := imports.Patch(ctx, "ticker", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			for ctx.Err() == nil && resolver.Differs("udp", server, ticker+" A", "NOERROR "+ip) != nil {
				<-tick.C
			}
			changes++
		}
	}()
	return func() int {
		cancel()
		return <-done
	}
}
