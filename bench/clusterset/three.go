package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/miekg/dns"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/bench/measure"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
)

// three is how much there is of everything in three clusters.
type three struct {
	exports   int           // to time, one after the other
	changing  int           // Services whose endpoints change
	changes   int           // a second
	changeFor time.Duration // long
	services  int           // of the big clusterset
	endpoints int           // of each Service

	set // clusters c1 to c3
}

func (t *three) flags(f *flag.FlagSet) {
	*t = three{exports: 300, changing: 1000, changes: 100, changeFor: time.Minute, services: 5000, endpoints: 10}
	f.BoolFunc("quick", "small and short: shows that it works, and what the figures look like, not what they are", func(string) error {
		*t = three{exports: 10, changing: 50, changes: 20, changeFor: 5 * time.Second, services: 100, endpoints: 10}
		return nil
	})
}

func (t *three) run(ctx context.Context) (title string, rows []row) {
	for _, stage := range []func(context.Context) []row{t.latencies, t.atScale} {
		rows = append(rows, t.onThree(ctx, stage)...)
	}
	return "; three clusters, all of it on this one machine", rows
}

// onThree measures something in three new clusters, joined all to all, without controllers.
func (t *three) onThree(ctx context.Context, stage func(context.Context) []row) []row {
	t.set = nil
	defer func() { _ = t.stop() }()
	part("starting three clusters", func() {
		for i := range 3 {
			t.set = append(t.set, measure.Must(start(ctx, fmt.Sprintf("c%d", i+1), fmt.Sprintf("10.%d.0.0/16", i+1))))
		}
		for _, m := range t.set {
			for _, peer := range t.set {
				if m != peer {
					measure.Check(m.Join(ctx, peer.ID, peer.ReaderKubeconfig))
				}
			}
		}
	})
	return stage(ctx)
}

// latencies are of a small clusterset: of exports while nothing else happens, then of endpoints under changes.
func (t *three) latencies(ctx context.Context) []row {
	in, at := t.set[0], t.set[1]
	var resolved, arrived []float64
	part("starting the controllers", func() { measure.Check(t.control(ctx)) })
	part(fmt.Sprintf("exporting %d Services in c1, one after the other, until CoreDNS in c2 has each", t.exports), func() {
		resolved = t.resolvable(ctx, in, at)
	})
	part(fmt.Sprintf("exporting %d Services in c1", t.changing), func() {
		measure.Check(in.fill(ctx, t.exports, t.changing, t.endpoints, true))
		measure.Check(at.ready(ctx, t.exports+t.changing, t.exports+t.changing))
	})
	t.quiet(ctx)
	part(fmt.Sprintf("%d changes of endpoints a second for %s", t.changes, t.changeFor), func() { arrived = t.propagated(ctx, in, at) })
	of := fmt.Sprintf("a changed endpoint to the other cluster's slice, %d Services, %d changes/s", t.changing, t.changes)
	return []row{
		{what: "export to resolvable in another cluster, idle: median", got: measure.Quantile(resolved, 0.5), unit: "ms"},
		row{what: "export to resolvable in another cluster, idle: p99", got: measure.Quantile(resolved, 0.99), unit: "ms"}.to(500),
		{what: of + ": median", got: measure.Quantile(arrived, 0.5), unit: "ms"},
		row{what: of + ": p99", got: measure.Quantile(arrived, 0.99), unit: "ms"}.to(1000),
	}
}

const corefile = "clusterset.local:{{.Port}} {\n bind 127.0.0.1\n errors\n multicluster {\n kubeconfig {{.Kubeconfig}}\n }\n}\n"

// resolvable times exports, each from the request that creates it until the name has an address.
func (t *three) resolvable(ctx context.Context, in, at *member) (took []float64) {
	server, address, err := binaries.StartCoreDNS(ctx, at.Cluster.Cluster, "coredns", corefile)
	measure.Check(err)
	defer server.Stop()
	measure.Check(in.fill(ctx, 0, t.exports, 1, false))
	for i := range t.exports {
		question := new(dns.Msg).SetQuestion(serviceName(i)+"."+namespace+".svc.clusterset.local.", dns.TypeA)
		began := time.Now()
		measure.Check(in.Admin.Create(ctx, &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceName(i)}}))
		measure.Check(wait(ctx, "resolve "+serviceName(i), time.Millisecond, func() error {
			answer, err := dns.Exchange(question, address)
			if err == nil && len(answer.Answer) == 0 {
				err = errors.New(dns.RcodeToString[answer.Rcode])
			}
			return err
		}))
		took = append(took, measure.Milliseconds(time.Since(began)))
	}
	return took
}

// propagated gives endpoints other hostnames, one of a Service at a time, and times each change from its request until a watch of the other
// cluster's slices has it.
func (t *three) propagated(ctx context.Context, in, at *member) []float64 {
	seen := measure.Must(at.follow(ctx))
	measure.Check(measure.Steadily(ctx, t.changes, measure.Writers, int(t.changeFor.Seconds())*t.changes, func(n int) error {
		hostname := fmt.Sprintf("h%d", n)
		seen.expect(hostname)
		patch := fmt.Appendf(nil, `[{"op":"add","path":"/endpoints/%d/hostname","value":%q}]`, n/t.changing%t.endpoints, hostname)
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceName(t.exports+n%t.changing) + "-abcde"}}
		return in.Admin.Patch(ctx, slice, client.RawPatch(types.JSONPatchType, patch))
	}))
	measure.Check(wait(ctx, "see all changes", 100*time.Millisecond, seen.complete))
	return seen.end()
}

// atScale is of a clusterset in which each cluster exports each Service.
func (t *three) atScale(ctx context.Context) []row {
	part(fmt.Sprintf("exporting %d Services in each cluster", t.services), func() {
		measure.Check(t.each(ctx, func(ctx context.Context, m *member) error { return m.fill(ctx, 0, t.services, t.endpoints, true) }))
	})
	bare := floor{World{Peers: len(t.set), Services: t.services, Shared: t.services, Endpoints: t.endpoints}, 300, true}
	what := fmt.Sprintf("the same writes by a bare client, 8 at a time for each cluster (from %d names): the floor", 2*min(bare.most, t.services))
	return bare.compare(ctx, t.set, what, t.firstSync, t.restart)
}

// firstSync starts the controllers, with everything exported already.
func (t *three) firstSync(ctx context.Context) []row {
	var tenth, took time.Duration
	spent := t.during(ctx, "the first sync, with all controllers started at once", func() {
		began := time.Now()
		measure.Check(t.control(ctx))
		measure.Check(t.each(ctx, func(ctx context.Context, m *member) error { return m.ready(ctx, t.services/10, 0) }))
		tenth = time.Since(began)
		t.complete(ctx)
		took = time.Since(began)
	})
	return []row{
		row{what: fmt.Sprintf("3 clusters x %d exported services of %d endpoints: first sync", t.services, t.endpoints), got: took.Seconds(), unit: "s"}.to(60),
		{what: "until a tenth of the names is ready in each cluster", got: tenth.Seconds(), unit: "s"},
		{what: "CPU time of a controller for the first sync", got: most(spent, func(r reading) float64 { return r.cpu }), unit: "s"},
		{what: "CPU time of an API server for the first sync", got: spent[0].serverCPU, unit: "s"},
		{what: "writes of the first sync, for each name in each cluster (it needs 8)", got: writes(spent) / float64(3*t.services), unit: "writes"},
		memory(spent, "after the first sync"),
	}
}

// restart counts the writes from before the end of all controllers until, started again, they have looked at everything.
func (t *three) restart(ctx context.Context) []row {
	t.quiet(ctx)
	spent := t.during(ctx, "a restart of all controllers", func() {
		for _, m := range t.set {
			m.controller.Stop()
		}
		measure.Check(t.control(ctx))
		t.complete(ctx)
		t.quiet(ctx)
	})
	return []row{
		row{what: "writes for an unchanged world: restart of every controller", got: writes(spent), unit: "writes"}.to(0), memory(spent, "after a restart"),
	}
}

func writes(of []reading) (total float64) {
	for _, r := range of {
		total += r.writes
	}
	return total
}

func most(of []reading, figure func(reading) float64) (greatest float64) {
	for _, r := range of {
		greatest = max(greatest, figure(r))
	}
	return greatest
}

func memory(of []reading, when string) row {
	return row{what: "memory of a controller there, resident, " + when, got: most(of, func(r reading) float64 { return r.memory }), unit: "MiB"}.to(300)
}

// complete waits for the imports, their slices beside the cluster's own, and the last write: the conditions of the exports.
func (t *three) complete(ctx context.Context) {
	measure.Check(t.each(ctx, func(ctx context.Context, m *member) error {
		if err := m.ready(ctx, t.services, (1+len(t.set))*t.services); err != nil {
			return err
		}
		return wait(ctx, "have conditions in "+m.ID, time.Second, func() error {
			all, err := m.figures(ctx)
			if err != nil {
				return err
			}
			if said := int(all("multicluster_serviceexports", "condition", "Conflict", "status", "False")); said < t.services {
				return fmt.Errorf("%d of %d exports", said, t.services)
			}
			return nil
		})
	}))
}

const namespace = "default"

func serviceName(i int) string { return fmt.Sprintf("s%d", i) }

// fill makes Services with endpoints, in the range of the cluster's pods, from a number on, and their exports.
func (m *member) fill(ctx context.Context, from, count, endpoints int, export bool) error {
	return measure.Parallel(ctx, 16, count, func(ctx context.Context, i int) error {
		name := serviceName(from + i)
		var addresses []string
		for e := range endpoints {
			addresses = append(addresses, measure.IP(100+int(m.ID[1]-'0')*10, (from+i)*16+e))
		}
		svc := world.Service(name, world.Selecting(name))
		objects := []client.Object{svc, world.Endpoints(svc, "de", addresses...)}
		if export {
			objects = append(objects, world.Export(name))
		}
		for _, obj := range objects {
			obj.SetNamespace(namespace)
			if err := m.Admin.Create(ctx, obj); err != nil {
				return fmt.Errorf("create %T %s in %s: %w", obj, name, m.ID, err)
			}
		}
		return nil
	})
}
