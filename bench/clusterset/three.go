package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/bench/measure"
	"github.com/clusterset-dns/multicluster/bench/simulated"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// three is how much there is of everything in three clusters.
type three struct {
	exports   int           // to time, one after the other
	changing  int           // Services whose endpoints change
	changes   int           // a second
	changeFor time.Duration // long
	services  int           // of the big clusterset
	endpoints int           // of each Service
}

func (t *three) flags(f *flag.FlagSet) {
	f.IntVar(&t.exports, "exports", 300, "exports to time, one after the other")
	f.IntVar(&t.changing, "changing", 1000, "exported Services whose endpoints change")
	f.IntVar(&t.changes, "changes", 100, "changes of endpoints a second")
	f.DurationVar(&t.changeFor, "change-for", time.Minute, "how long endpoints change")
	f.IntVar(&t.services, "services", 5000, "Services that each of three clusters exports")
	f.IntVar(&t.endpoints, "endpoints", 10, "endpoints of each Service in each cluster")
}

func (t *three) run(ctx context.Context) (title string, rows []row, err error) {
	for _, measured := range []func(context.Context, set) ([]row, error){t.latencies, t.atScale} {
		more, err := onThree(ctx, measured)
		if err != nil {
			return "", nil, err
		}
		rows = append(rows, more...)
	}
	return "; three clusters, all of it on this one machine", rows, nil
}

// onThree does something with clusters c1 to c3, joined all to all, without controllers.
func onThree(ctx context.Context, do func(context.Context, set) ([]row, error)) (rows []row, err error) {
	var s set
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := part("starting three clusters", func() error {
		for i := range 3 {
			m, err := start(ctx, fmt.Sprintf("c%d", i+1), fmt.Sprintf("10.%d.0.0/16", i+1))
			if err != nil {
				return err
			}
			s = append(s, m)
		}
		return s.each(ctx, func(ctx context.Context, m *member) (err error) {
			for _, peer := range s {
				if m != peer {
					err = errors.Join(err, m.Join(ctx, peer.ID, peer.ReaderKubeconfig))
				}
			}
			return err
		})
	}); err != nil {
		return nil, err
	}
	return do(ctx, s)
}

// latencies are of a small clusterset: of exports while nothing else happens, then of endpoints under changes.
func (t *three) latencies(ctx context.Context, s set) (rows []row, err error) {
	if err := part("starting the controllers", func() error { return s.control(ctx) }); err != nil {
		return nil, err
	}
	var took []float64
	if err := part(fmt.Sprintf("exporting %d Services in c1, one after the other, until CoreDNS in c2 has each", t.exports), func() (err error) {
		took, err = t.resolvable(ctx, s[0], s[1])
		return err
	}); err != nil {
		return nil, err
	}
	rows = append(rows,
		row{what: "export to resolvable in another cluster, idle: median", got: measure.Quantile(took, 0.5), unit: "ms"},
		row{what: "export to resolvable in another cluster, idle: p99", got: measure.Quantile(took, 0.99), unit: "ms"}.to(500))
	if err := part(fmt.Sprintf("exporting %d Services in c1", t.changing), func() error {
		return errors.Join(s[0].fill(ctx, t.exports, t.changing, t.endpoints, true), s[1].ready(ctx, t.exports+t.changing, t.exports+t.changing))
	}); err != nil {
		return nil, err
	}
	if _, err := s.quiet(ctx); err != nil {
		return nil, err
	}
	if err := part(fmt.Sprintf("%d changes of endpoints a second for %s", t.changes, t.changeFor), func() (err error) {
		took, err = t.propagated(ctx, s[0], s[1])
		return err
	}); err != nil {
		return nil, err
	}
	of := fmt.Sprintf("a changed endpoint to the other cluster's slice, %d Services, %d changes/s", t.changing, t.changes)
	return append(rows,
		row{what: of + ": median", got: measure.Quantile(took, 0.5), unit: "ms"},
		row{what: of + ": p99", got: measure.Quantile(took, 0.99), unit: "ms"}.to(1000)), nil
}

const corefile = "clusterset.local:{{.Port}} {\n bind 127.0.0.1\n errors\n multicluster {\n kubeconfig {{.Kubeconfig}}\n }\n}\n"

// resolvable times exports, each from the request that creates it until the name has an address.
func (t *three) resolvable(ctx context.Context, in, at *member) (took []float64, err error) {
	server, address, err := binaries.StartCoreDNS(ctx, at.Cluster.Cluster, "coredns", corefile)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	if err := in.fill(ctx, 0, t.exports, 1, false); err != nil {
		return nil, err
	}
	for i := range t.exports {
		question := new(dns.Msg).SetQuestion(serviceName(i)+"."+namespace+".svc.clusterset.local.", dns.TypeA)
		began := time.Now()
		if err := in.Admin.Create(ctx, &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceName(i)}}); err != nil {
			return nil, err
		}
		if err := wait(ctx, "resolve "+serviceName(i), time.Millisecond, func() error {
			answer, err := dns.Exchange(question, address)
			if err == nil && len(answer.Answer) == 0 {
				err = errors.New(dns.RcodeToString[answer.Rcode])
			}
			return err
		}); err != nil {
			return nil, err
		}
		took = append(took, measure.Milliseconds(time.Since(began)))
	}
	return took, nil
}

// propagated gives endpoints other hostnames, one of a Service at a time, and times each change from its request until a watch of the other
// cluster's slices has it.
func (t *three) propagated(ctx context.Context, in, at *member) ([]float64, error) {
	seen, err := at.follow(ctx)
	if err != nil {
		return nil, err
	}
	writers, writing := errgroup.WithContext(ctx)
	writers.SetLimit(measure.Writers)
	err = steadily(writing, int(t.changeFor.Seconds())*t.changes, t.changes, func(n int) error {
		hostname := fmt.Sprintf("h%d", n)
		seen.expect(hostname)
		writers.Go(func() error {
			patch := fmt.Appendf(nil, `[{"op":"add","path":"/endpoints/%d/hostname","value":%q}]`, n/t.changing%t.endpoints, hostname)
			slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: sliceName(t.exports + n%t.changing)}}
			return in.Admin.Patch(writing, slice, client.RawPatch(types.JSONPatchType, patch))
		})
		return nil
	})
	if err = errors.Join(writers.Wait(), err); err == nil {
		err = wait(ctx, "see all changes", 100*time.Millisecond, seen.complete)
	}
	return seen.end(), err
}

// atScale is of a clusterset in which each cluster exports each Service.
func (t *three) atScale(ctx context.Context, s set) ([]row, error) {
	if err := part(fmt.Sprintf("exporting %d Services in each cluster", t.services), func() error {
		return s.each(ctx, func(ctx context.Context, m *member) error { return m.fill(ctx, 0, t.services, t.endpoints, true) })
	}); err != nil {
		return nil, err
	}
	world := simulated.World{Peers: len(s), Services: t.services, Shared: t.services, Endpoints: t.endpoints, Undescribed: true}
	bare := floor{world: world, most: 300, exports: true}
	before, err := bare.measure(ctx, s, "floor-before")
	if err != nil {
		return nil, err
	}
	took, rows, err := t.firstSync(ctx, s)
	if err != nil {
		return nil, err
	}
	again, err := t.restart(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, m := range s {
		m.controller.Stop()
	}
	after, err := bare.measure(ctx, s, "floor-after")
	// An API server takes longer for a Service, the more there are: it counts them all, twice. So the middle of both is taken.
	middle := (before + after).Seconds() / 2
	rows = append([]row{
		row{what: fmt.Sprintf("3 clusters x %d exported services of %d endpoints: first sync", t.services, t.endpoints), got: took.Seconds(), unit: "s"}.to(60),
		{what: fmt.Sprintf("the same writes by a bare client, 8 at a time for each cluster (from %d names): the floor", 2*min(bare.most, t.services)), got: middle, unit: "s"},
		{what: "first sync, in relation to the floor", got: took.Seconds() / middle, unit: "x"},
	}, rows...)
	return append(rows, again...), err
}

// firstSync starts the controllers, with everything exported already.
func (t *three) firstSync(ctx context.Context, s set) (took time.Duration, rows []row, err error) {
	var tenth time.Duration
	spent, err := s.during(ctx, "the first sync, with all controllers started at once", func() error {
		began := time.Now()
		if err := s.control(ctx); err != nil {
			return err
		}
		if err := s.each(ctx, func(ctx context.Context, m *member) error { return m.ready(ctx, t.services/10, 0) }); err != nil {
			return err
		}
		tenth = time.Since(began)
		err := t.complete(ctx, s)
		took = time.Since(began)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	return took, []row{
		{what: "until a tenth of the names is ready in each cluster", got: tenth.Seconds(), unit: "s"},
		{what: "CPU time of a controller for the first sync", got: most(spent, func(r reading) float64 { return r.cpu }), unit: "s"},
		{what: "CPU time of an API server for the first sync", got: spent[0].serverCPU, unit: "s"},
		{what: "writes of the first sync, for each name in each cluster (it needs 8)", got: writes(spent) / float64(3*t.services), unit: "writes"},
		memory(spent, "after the first sync"),
	}, nil
}

// restart counts the writes from before the end of all controllers until, started again, they have looked at everything.
func (t *three) restart(ctx context.Context, s set) ([]row, error) {
	if _, err := s.quiet(ctx); err != nil {
		return nil, err
	}
	spent, err := s.during(ctx, "a restart of all controllers", func() error {
		for _, m := range s {
			m.controller.Stop()
		}
		if err := errors.Join(s.control(ctx), t.complete(ctx, s)); err != nil {
			return err
		}
		_, err := s.quiet(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return []row{
		row{what: "writes for an unchanged world: restart of every controller", got: writes(spent), unit: "writes"}.to(0), memory(spent, "after a restart"),
	}, nil
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
func (t *three) complete(ctx context.Context, s set) error {
	return s.each(ctx, func(ctx context.Context, m *member) error {
		if err := m.ready(ctx, t.services, (1+len(s))*t.services); err != nil {
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
	})
}

const namespace = "default"

func serviceName(i int) string { return fmt.Sprintf("s%d", i) }

func sliceName(i int) string { return serviceName(i) + "-abcde" }

// fill makes Services with endpoints, from a number on, and their exports.
func (m *member) fill(ctx context.Context, from, count, endpoints int, export bool) error {
	return measure.Parallel(ctx, 16, count, func(ctx context.Context, i int) error {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: serviceName(from + i)}
		svc := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": meta.Name}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
		}}
		objects := []client.Object{svc, m.slice(from+i, endpoints)}
		if export {
			objects = append(objects, &mcsv1beta1.ServiceExport{ObjectMeta: meta})
		}
		for _, obj := range objects {
			if err := m.Admin.Create(ctx, obj); err != nil {
				return fmt.Errorf("create %T %s in %s: %w", obj, meta.Name, m.ID, err)
			}
		}
		return nil
	})
}

// slice is as the cluster's own controller makes it, with addresses in the range of its pods.
func (m *member) slice(i, endpoints int) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: sliceName(i), Labels: map[string]string{
			discoveryv1.LabelServiceName: serviceName(i), discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for e := range endpoints {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{measure.IP(100+int(m.ID[1]-'0')*10, i*16+e)},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			NodeName:   new(fmt.Sprintf("node-%d", e%50)), Zone: new(fmt.Sprintf("zone-%d", e%3)),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: fmt.Sprintf("%s-%d", serviceName(i), e), UID: "00000000-0000-0000-0000-000000000000"},
		})
	}
	return slice
}
