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

func run(ctx context.Context, length time.Duration, out string) (err error) {
	s := &soak{world: newWorld(), start: time.Now()}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	// Buffers and pools grow to what the load needs before they are weighed.
	err = s.load(ctx, func(ctx context.Context) error { return measure.Pause(ctx, min(15*time.Second, length/4)) })
	if err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if s.begin, err = s.weigh(ctx); err != nil {
		return err
	}
	before := s.count()
	err = s.load(ctx, func(ctx context.Context) error { return s.disturb(ctx, length) })
	s.whole = s.count().minus(before)
	if err != nil {
		s.report(os.Stdout)
		return errors.Join(err, s.lastWords())
	}
	if err := s.weighEnd(ctx); err != nil {
		return err
	}
	return s.finish(out)
}

// prepare starts everything, and makes all things full.
func (s *soak) prepare(ctx context.Context) (err error) {
	s.say("starting etcd and kube-apiserver")
	if s.cluster, err = kube.Start(ctx, kube.Options{}); err != nil {
		return err
	}
	if err = s.cluster.InstallCRDs(ctx, kube.BothVersions); err != nil {
		return err
	}
	if s.api, err = newAPI(s.cluster.Config, s.now); err != nil {
		return err
	}
	if err = s.makeNamespaces(ctx); err != nil {
		return err
	}
	s.say("creating %d objects", len(s.all))
	if err = s.fill(ctx, s.all); err != nil {
		return err
	}
	address, err := url.Parse(s.cluster.Config.Host)
	if err != nil {
		return err
	}
	if s.proxy, err = faultproxy.Listen(address.Host); err != nil {
		return err
	}
	s.say("starting CoreDNS")
	s.server, err = startServer(ctx, s.cluster, s.proxy.Address())
	return err
}

func (s *soak) makeNamespaces(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.cluster.Config)
	if err != nil {
		return err
	}
	for i := range namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(i)}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// fill makes things full.
func (s *soak) fill(ctx context.Context, things []*thing) error {
	return measure.Parallel(ctx, writers, len(things), func(ctx context.Context, i int) error { return s.write(ctx, things[i], things[i].full) })
}

// stop ends what prepare started.
func (s *soak) stop() error {
	if s.server != nil {
		s.server.Stop()
	}
	var errs []error
	if s.proxy != nil {
		errs = append(errs, s.proxy.Close())
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Stop())
	}
	return errors.Join(errs...)
}

// load has changes and questions go on while it does something. At the end, all things are full, and every name is asked for.
func (s *soak) load(ctx context.Context, do func(context.Context) error) error {
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
		err := do(ctx)
		s.phase.Store("ending")
		stopChanging()
		<-changed
		if err == nil {
			err = s.settle(ctx)
		}
		return err
	})
	return group.Wait()
}

// settle makes all things full (the canaries, which have another writer, always are), and asks for each name: none but the newest answer is right then.
func (s *soak) settle(ctx context.Context) error {
	if err := s.fill(ctx, s.withoutCanaries()); err != nil {
		return err
	}
	if err := s.awaitStep(ctx, s.now()); err != nil {
		return err
	}
	return s.withQuerier(func(q *querier) error {
		for _, question := range s.everyName() {
			q.ask(ctx, question)
		}
		return nil
	})
}

func (s *soak) withQuerier(do func(*querier) error) error {
	q, err := s.newQuerier(s.server.Address)
	if err != nil {
		return err
	}
	defer q.close()
	return do(q)
}

// weigh measures the memory of CoreDNS with new connections: the connection of a watch has a buffer
// of the size of its longest event, for the lifetime of the watch.
func (s *soak) weigh(ctx context.Context) (memory, error) {
	s.proxy.Cut()
	return s.server.weigh(ctx)
}

// weighEnd compares with the beginning, and the metrics of CoreDNS with the existing objects.
func (s *soak) weighEnd(ctx context.Context) (err error) {
	if s.end, err = s.weigh(ctx); err != nil {
		return err
	}
	if why := level(s.begin, s.end); why != "" {
		s.faults = append(s.faults, "memory is not level: "+why)
	}
	imports, endpoints := s.size()
	for name, want := range map[string]int{"imports": imports, "endpoints": endpoints, "watches": 1, "synced": 1} {
		got, err := s.server.gauge(ctx, "coredns_multicluster_"+name)
		if err != nil {
			return err
		}
		if got != int64(want) {
			s.faults = append(s.faults, fmt.Sprintf("the metric %s is %d, and should be %d", name, got, want))
		}
	}
	return nil
}
