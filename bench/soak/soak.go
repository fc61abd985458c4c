package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/bench/measure"
	"github.com/clusterset-dns/multicluster/bench/soak/oracle"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

// soak is one run.
type soak struct {
	*world
	*api
	start   time.Time
	cluster *kube.Cluster
	proxy   *faultproxy.Proxy
	server  *server
	checker oracle.Checker

	phase atomic.Value // a string
	calm  atomic.Bool  // nothing is disturbed, and CoreDNS is in step

	asked, overTCP, resent atomic.Int64
	wrong                  wrongs
	lag                    durations // of fences, from the API server's reply to the answer, while it was calm
	ages                   durations // of answers that were no longer the newest, while it was calm

	calmly, whole counts
	happened      []happened
	begin, end    memory
	faults        []string // other than wrong answers
}

// now is the time since the beginning, by a clock that cannot be set.
func (s *soak) now() time.Duration { return time.Since(s.start) }

func run(ctx context.Context, length time.Duration, out string) {
	s := &soak{world: newWorld(), start: time.Now()}
	defer s.stop()
	s.prepare(ctx)
	// Buffers and pools grow to what the load needs before they are weighed.
	s.load(ctx, func(ctx context.Context) { measure.Check(measure.Pause(ctx, min(15*time.Second, length/4))) })
	s.begin = s.weigh(ctx)
	before := s.count()
	err := measure.Catch(func() { s.load(ctx, func(ctx context.Context) { s.disturb(ctx, length) }) })
	s.whole = s.count().minus(before)
	if err != nil {
		s.report(os.Stdout)
		measure.Check(errors.Join(err, s.lastWords()))
	}
	s.weighEnd(ctx)
	s.finish(out)
}

// prepare starts everything, and makes all things full.
func (s *soak) prepare(ctx context.Context) {
	s.say("starting etcd and kube-apiserver")
	s.cluster = measure.Must(kube.Start(ctx, kube.Options{}))
	measure.Check(s.cluster.InstallCRDs(ctx, kube.BothVersions))
	s.api = measure.Must(newAPI(s.cluster.Config, s.now))
	client := measure.Must(kubernetes.NewForConfig(s.cluster.Config))
	for i := range namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(i)}}
		measure.Must(client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}))
	}
	s.say("creating %d objects", len(s.all))
	measure.Check(s.fill(ctx, s.all))
	address := measure.Must(url.Parse(s.cluster.Config.Host))
	s.proxy = measure.Must(faultproxy.Listen(address.Host))
	s.say("starting CoreDNS")
	s.server = startServer(ctx, s.cluster, s.proxy.Address())
}

// fill makes things full.
func (s *soak) fill(ctx context.Context, things []*thing) error {
	return measure.Parallel(ctx, writers, len(things), func(ctx context.Context, i int) error {
		return s.write(ctx, things[i], things[i].full)
	})
}

// stop ends what prepare started, except what ends with this process.
func (s *soak) stop() {
	if s.server != nil {
		s.server.Stop()
	}
	if s.cluster != nil {
		_ = s.cluster.Stop()
	}
}

// load has changes and questions go on while it does something. At the end, all things are full, and every name is asked for.
func (s *soak) load(ctx context.Context, do func(context.Context)) {
	group, ctx := errgroup.WithContext(ctx)
	asking, stopAsking := context.WithCancel(ctx)
	changing, stopChanging := context.WithCancel(ctx)
	changed := make(chan struct{})
	group.Go(func() error {
		defer close(changed)
		return s.change(ctx, changing)
	})
	for range queriers {
		group.Go(func() error {
			return s.withQuerier(func(q *querier) error { q.run(asking); return nil })
		})
	}
	for _, c := range s.canaries {
		group.Go(func() error {
			return s.withQuerier(func(q *querier) error { return s.keepFencing(ctx, asking, c, q) })
		})
	}
	group.Go(func() error { s.progress(asking); return nil })
	group.Go(func() error {
		defer stopAsking()
		err := measure.Catch(func() { do(ctx) })
		s.phase.Store("ending")
		stopChanging()
		<-changed
		if err != nil {
			return err
		}
		return measure.Catch(func() { s.settle(ctx) })
	})
	measure.Check(group.Wait())
}

// settle makes all things full (the canaries, which have another writer, always are), and asks for each name: none but the newest answer is right then.
func (s *soak) settle(ctx context.Context) {
	measure.Check(s.fill(ctx, s.withoutCanaries()))
	s.awaitStep(ctx, s.now())
	measure.Check(s.withQuerier(func(q *querier) error {
		for _, question := range s.everyName() {
			q.ask(ctx, question)
		}
		return nil
	}))
}

// weigh measures the memory of CoreDNS with new connections: the connection of a watch has a buffer
// of the size of its longest event, for the lifetime of the watch.
func (s *soak) weigh(ctx context.Context) memory {
	s.proxy.Cut()
	return s.server.weigh(ctx)
}

// weighEnd compares with the beginning, and the metrics of CoreDNS with the existing objects.
func (s *soak) weighEnd(ctx context.Context) {
	s.end = s.weigh(ctx)
	if why := level(s.begin, s.end); why != "" {
		s.faults = append(s.faults, "memory is not level: "+why)
	}
	imports, endpoints := s.size()
	for name, want := range map[string]int{"imports": imports, "endpoints": endpoints, "watches": 1, "synced": 1} {
		if got := measure.Must(s.server.gauge(ctx, "coredns_multicluster_"+name)); got != int64(want) {
			s.faults = append(s.faults, fmt.Sprintf("the metric %s is %d, and should be %d", name, got, want))
		}
	}
}
