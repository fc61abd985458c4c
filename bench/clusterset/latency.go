package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/clusterset"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

//go:embed Corefile
var corefile string

// latencies are of a small clusterset: of exports while nothing else happens, then of endpoints under changes.
func latencies(ctx context.Context, s size) (rows []row, err error) {
	var set []*member
	defer func() { err = errors.Join(err, stopAll(set)) }()
	if err := part("starting three clusters and their controllers", func() error {
		if set, err = startAll(ctx); err != nil {
			return err
		}
		return controlAll(ctx, set)
	}); err != nil {
		return nil, err
	}
	var took []time.Duration
	if err := part(fmt.Sprintf("exporting %d Services in c1, one after the other, until CoreDNS in c2 has each", s.exports), func() (err error) {
		took, err = resolvable(ctx, set[0], set[1], s.exports)
		return err
	}); err != nil {
		return nil, err
	}
	rows = append(rows,
		row{what: "export to resolvable in another cluster, idle: median", got: percentile(took, 50), reach: -1, unit: "ms"},
		row{what: "export to resolvable in another cluster, idle: p99", got: percentile(took, 99), reach: 500, unit: "ms"})

	if err := part(fmt.Sprintf("%d Services exported in c1, %d changes of endpoints a second for %s", s.changing, s.changes, s.changeFor), func() (err error) {
		if err := set[0].fill(ctx, s.exports, s.exports+s.changing, s.endpoints, true); err != nil {
			return err
		}
		if err := set[1].has(ctx, s.exports+s.changing, 1); err != nil {
			return err
		}
		if err := quiet(ctx, set); err != nil {
			return err
		}
		took, err = propagated(ctx, set[0], set[1], s)
		return err
	}); err != nil {
		return nil, err
	}
	of := fmt.Sprintf("a changed endpoint to the other cluster's slice, %d Services, %d changes/s", s.changing, s.changes)
	return append(rows,
		row{what: of + ": median", got: percentile(took, 50), reach: -1, unit: "ms"},
		row{what: of + ": p99", got: percentile(took, 99), reach: 1000, unit: "ms"}), nil
}

// resolvable times exports, each from the request that creates it until the name has an address.
func resolvable(ctx context.Context, in, at *member, count int) (took []time.Duration, err error) {
	server, address, err := binaries.StartCoreDNS(ctx, at.Cluster.Cluster, "coredns", corefile)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	if err := in.fill(ctx, 0, count, 1, false); err != nil {
		return nil, err
	}
	for i := range count {
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
		took = append(took, time.Since(began))
	}
	return took, nil
}

// has waits until a cluster has so many imports, all ready, with so many slices each.
func (m *member) has(ctx context.Context, imports, slices int) error {
	if err := m.ready(ctx, imports); err != nil {
		return err
	}
	return wait(ctx, "import their slices in "+m.ID, time.Second, func() error {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSliceList"))
		if err := m.Admin.List(ctx, list, client.InNamespace(namespace), client.HasLabels{mcsv1beta1.LabelServiceName}); err != nil {
			return err
		}
		if len(list.Items) != imports*slices {
			return fmt.Errorf("%d of %d slices", len(list.Items), imports*slices)
		}
		return nil
	})
}

// ready waits until so many imports are, or more.
func (m *member) ready(ctx context.Context, imports int) error {
	return wait(ctx, "import "+strconv.Itoa(imports)+" names in "+m.ID, 500*time.Millisecond, func() error {
		ready, err := m.figure(ctx, "multicluster_serviceimports", map[string]string{"condition": "ready"})
		if err == nil && int(ready) < imports {
			err = fmt.Errorf("%d are ready", int(ready))
		}
		return err
	})
}

// propagated changes one endpoint of a Service at a time, at a steady pace, and times each change from its request until a watch of the
// other cluster's slices has it.
func propagated(ctx context.Context, in, at *member, s size) (took []time.Duration, err error) {
	watcher, err := client.NewWithWatch(at.Config, client.Options{Scheme: clusterset.Scheme})
	if err != nil {
		return nil, err
	}
	stream, err := watcher.Watch(ctx, &discoveryv1.EndpointSliceList{}, client.InNamespace(namespace), client.MatchingLabels{mcsv1beta1.LabelSourceCluster: in.ID})
	if err != nil {
		return nil, err
	}
	defer stream.Stop()
	var mu sync.Mutex
	asked := map[string]time.Time{} // by hostname, which each change makes anew
	total := int(s.changeFor.Seconds()) * s.changes
	seen := make(chan time.Duration, total)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return observe(ctx, stream, &mu, asked, seen, total) })
	group.Go(func() error {
		tick := time.NewTicker(time.Second / time.Duration(s.changes))
		defer tick.Stop()
		writers, ctx := errgroup.WithContext(ctx)
		writers.SetLimit(32)
		for n := range total {
			select {
			case <-ctx.Done():
				return writers.Wait()
			case <-tick.C:
			}
			hostname := fmt.Sprintf("h%d", n)
			mu.Lock()
			asked[hostname] = time.Now()
			mu.Unlock()
			writers.Go(func() error {
				patch := fmt.Appendf(nil, `[{"op":"add","path":"/endpoints/%d/hostname","value":%q}]`, n/s.changing%s.endpoints, hostname)
				slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceName(s.exports+n%s.changing) + "-abcde"}}
				return in.Admin.Patch(ctx, slice, client.RawPatch(types.JSONPatchType, patch))
			})
		}
		return writers.Wait()
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	close(seen)
	for d := range seen {
		took = append(took, d)
	}
	return took, nil
}

// observe ends when every change was seen.
func observe(ctx context.Context, stream watch.Interface, mu *sync.Mutex, asked map[string]time.Time, seen chan<- time.Duration, total int) error {
	for done := 0; done < total; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d changes were seen: %w", done, total, ctx.Err())
		case event, open := <-stream.ResultChan():
			slice, ok := event.Object.(*discoveryv1.EndpointSlice)
			if !open || !ok {
				return fmt.Errorf("the watch of slices ended: %v", event.Object)
			}
			now := time.Now()
			mu.Lock()
			for _, e := range slice.Endpoints {
				if e.Hostname == nil {
					continue
				}
				if began, waiting := asked[*e.Hostname]; waiting {
					delete(asked, *e.Hostname)
					seen <- now.Sub(began)
					done++
				}
			}
			mu.Unlock()
		}
	}
	return nil
}

// percentile is in milliseconds.
func percentile(took []time.Duration, p int) float64 {
	slices.Sort(took)
	return float64(took[min(len(took)-1, len(took)*p/100)].Microseconds()) / 1000
}
