package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/bench/soak/oracle"
)

// thing is an API object that gets one state after the other, from one writer at a time.
type thing struct {
	*oracle.Object
	collection string // its path in the API, without its name
	name       string
	isImport   bool
	most       int  // its size when it is full
	fickle     bool // it comes and goes, and may be of any size; others are nearly full
	number     func() uint32
	content    func(oracle.State) map[string]any
}

// next is some state that it may have after another one.
func (t *thing) next(last oracle.State) oracle.State {
	switch {
	case t.fickle && !last.Gone && rand.IntN(4) == 0:
		return oracle.State{Gone: true}
	case t.fickle:
		return t.ofSize(rand.IntN(t.most + 1))
	}
	return t.ofSize(max(1, t.most-rand.IntN(3)))
}

// full is the state in which it is largest: the world has one size whenever all things are full.
func (t *thing) full(oracle.State) oracle.State { return t.ofSize(t.most) }

func (t *thing) ofSize(size int) oracle.State { return oracle.State{Number: t.number(), Size: size} }

// canary is a thing that only a fence is made of, and the question that shows it.
type canary struct {
	*thing
	question oracle.Question
	fence    *oracle.Fence
}

// world is all the things.
type world struct {
	importFence, sliceFence oracle.Fence // of each resource: it comes by a watch of its own

	vips       []*oracle.VIP
	headless   []*oracle.Headless
	all        []*thing
	steady     []*thing // imports with addresses that change
	fickle     []*thing // imports that come and go
	endpoints  []*thing // slices
	canaries   []canary
	importTick atomic.Uint32
	sliceTick  atomic.Uint32
}

// One import in fickleImports is fickle, and so on.
const (
	fickleImports  = 20
	fickleHeadless = 8
	bigHeadless    = 10
	smallSlice     = 3
	bigSlice       = 110
	namespaces     = 4
)

func namespaceOf(i int) string { return fmt.Sprintf("soak-%d", i%namespaces) }

func newWorld() *world {
	w := &world{}
	for i := range imports {
		t := w.addVIP(fmt.Sprintf("import-%d", i), namespaceOf(i), i%2 == 1, i%fickleImports == 0)
		if t.fickle {
			w.fickle = append(w.fickle, t)
		} else {
			w.steady = append(w.steady, t)
		}
	}
	for i := range headless {
		size := smallSlice
		if i%bigHeadless == 0 {
			size = bigSlice
		}
		t, parts := w.addHeadless(fmt.Sprintf("pods-%d", i), namespaceOf(i), size, len(oracle.Clusters))
		w.endpoints = append(w.endpoints, parts...)
		if t.fickle = i%fickleHeadless == 1; t.fickle {
			w.fickle = append(w.fickle, t)
		}
	}
	w.addCanaries()
	return w
}

func (w *world) addCanaries() {
	t := w.addVIP("canary-import", namespaceOf(0), false, false)
	w.canaries = append(w.canaries, canary{t, w.vips[len(w.vips)-1].Ask(dns.TypeA), &w.importFence})
	_, parts := w.addHeadless("canary-slice", namespaceOf(0), 1, 1)
	w.canaries = append(w.canaries, canary{parts[0], w.headless[len(w.headless)-1].Ask(dns.TypeA), &w.sliceFence})
}

func dnsName(name, namespace string) string { return name + "." + namespace + ".svc." + oracle.Zone }

func (w *world) addVIP(name, namespace string, dual, fickle bool) *thing {
	v := &oracle.VIP{Object: oracle.NewObject(&w.importFence), Name: dnsName(name, namespace), Dual: dual}
	w.vips = append(w.vips, v)
	t := w.newImport(v.Object, name, namespace, func(s oracle.State) map[string]any {
		return map[string]any{"type": "ClusterSetIP", "ips": v.Addresses(s), "ports": portsOf(s.Number)}
	})
	t.fickle = fickle
	return t
}

func (w *world) newImport(o *oracle.Object, name, namespace string, spec func(oracle.State) map[string]any) *thing {
	t := &thing{
		Object: o, collection: "/apis/multicluster.x-k8s.io/v1beta1/namespaces/" + namespace + "/serviceimports", name: name,
		isImport: true, most: 1, number: func() uint32 { return w.importTick.Add(1) },
		content: func(s oracle.State) map[string]any {
			return map[string]any{
				"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "metadata": map[string]any{"name": name}, "spec": spec(s),
			}
		},
	}
	w.all = append(w.all, t)
	return t
}

func (w *world) addHeadless(name, namespace string, size, clusters int) (t *thing, parts []*thing) {
	h := &oracle.Headless{Import: oracle.NewObject(&w.importFence), Name: dnsName(name, namespace)}
	w.headless = append(w.headless, h)
	t = w.newImport(h.Import, name, namespace, func(oracle.State) map[string]any { return map[string]any{"type": "Headless", "ports": []any{}} })
	for i := range clusters {
		s := w.newSlice(name, namespace, i, size)
		parts = append(parts, s)
		h.Slices = append(h.Slices, s.Object)
	}
	return t, parts
}

func (w *world) newSlice(service, namespace string, cluster, size int) *thing {
	name := service + "-" + oracle.Clusters[cluster]
	t := &thing{
		Object: oracle.NewObject(&w.sliceFence), collection: "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices", name: name,
		most: size, fickle: size == smallSlice, number: func() uint32 { return oracle.SliceNumber(w.sliceTick.Add(1), cluster) },
		content: func(s oracle.State) map[string]any {
			return map[string]any{
				"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
				"metadata": map[string]any{"name": name, "labels": map[string]any{
					"multicluster.kubernetes.io/service-name": service, "multicluster.kubernetes.io/source-cluster": oracle.Clusters[cluster],
				}},
				"endpoints": endpointsOf(s), "ports": portsOf(s.Number),
			}
		},
	}
	w.all = append(w.all, t)
	return t
}

func endpointsOf(s oracle.State) []any {
	all := make([]any, s.Size)
	for i := range all {
		all[i] = map[string]any{
			"addresses": []any{oracle.Endpoint(s.Number, i)}, "hostname": oracle.Hostname(i), "conditions": map[string]any{"ready": true},
		}
	}
	return all
}

func portsOf(number uint32) []any {
	var all []any
	for i, name := range oracle.Ports {
		all = append(all, map[string]any{"name": name, "protocol": "TCP", "port": oracle.Port(number, i)})
	}
	return all
}

// those are some of all things.
func (w *world) those(wanted func(*thing) bool) []*thing {
	return slices.DeleteFunc(slices.Clone(w.all), func(t *thing) bool { return !wanted(t) })
}

func (w *world) importsOnly() []*thing { return w.those(func(t *thing) bool { return t.isImport }) }

func (w *world) withoutCanaries() []*thing {
	return w.those(func(t *thing) bool { return t != w.canaries[0].thing && t != w.canaries[1].thing })
}

// size is what CoreDNS has to hold when all things are full.
func (w *world) size() (imports, endpoints int) {
	for _, t := range w.all {
		if t.isImport {
			imports++
		} else {
			endpoints += t.most
		}
	}
	return imports, endpoints
}
