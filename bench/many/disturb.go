package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/bench/simulated"
)

// disturb measures what changes and outages of peers cost.
func (s *stage) disturb(ctx context.Context, z size) (rows []row, err error) {
	for _, one := range []func(context.Context, size) ([]row, error){s.changes, s.flap, s.rolling} {
		if _, err := s.quiet(ctx); err != nil {
			return nil, err
		}
		more, err := one(ctx, z)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// cost is what the controller does meanwhile: its writes, its plans of names, and its CPU time.
type cost struct{ writes, plans, cpu float64 }

func (s *stage) cost(ctx context.Context) (c cost, err error) {
	var failed [3]error
	c.writes, failed[0] = s.writes(ctx)
	c.plans, failed[1] = s.figure(ctx, "controller_runtime_reconcile_total", map[string]string{"controller": "serviceimport"})
	c.cpu, failed[2] = s.figure(ctx, processCPU, nil)
	return c, errors.Join(failed[:]...)
}

// during gives the cost of what is done, until nothing is reconciled any more.
func (s *stage) during(ctx context.Context, what string, do func() error) (cost, error) {
	before, err := s.cost(ctx)
	if err != nil {
		return cost{}, err
	}
	if err := part(what, do); err != nil {
		return cost{}, err
	}
	if _, err := s.quiet(ctx); err != nil {
		return cost{}, err
	}
	after, err := s.cost(ctx)
	return cost{after.writes - before.writes, after.plans - before.plans, after.cpu - before.cpu}, err
}

// changes gives endpoints other addresses, at an even rate, each in the next peer, and measures when this cluster's slices have them.
func (s *stage) changes(ctx context.Context, z size) ([]row, error) {
	seen, err := s.follow(ctx)
	if err != nil {
		return nil, err
	}
	defer seen.end()
	// An address that is replaced at once may never arrive, so each slice changes once at most.
	total := min(int(z.changing.Seconds()*float64(z.rate)), z.world.Peers*z.world.Services)
	spent, err := s.during(ctx, fmt.Sprintf("%d changes, %d a second", total, z.rate), func() error {
		tick := time.NewTicker(time.Second / time.Duration(z.rate))
		defer tick.Stop()
		for i := range total {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
			if err := s.change(z.world, i, seen); err != nil {
				return err
			}
		}
		return wait(ctx, "see all changes", 100*time.Millisecond, seen.complete)
	})
	if err != nil {
		return nil, err
	}
	took := seen.delays()
	return []row{
		{"changes: from a peer's new address to the write here, median", percentile(took, 50), "ms"},
		{"changes: the same, 99th percentile", percentile(took, 99), "ms"},
		{"changes: writes for each", spent.writes / float64(total), "writes"},
		{"changes: CPU time of the controller for each", spent.cpu / float64(total) * 1000, "ms"},
	}, nil
}

// change gives the first endpoint of a Service an address that nothing had before. Each change is in another slice.
func (s *stage) change(w simulated.World, i int, seen *arrivals) error {
	peer := i % w.Peers
	slice := w.Slice(peer, i/w.Peers%w.Services, 0)
	address := fmt.Sprintf("10.%d.%d.%d", 128+i>>16, i>>8&255, i&255)
	slice.Endpoints[0].Addresses = []string{address}
	seen.expect(address)
	return s.peers[peer].Apply(slice)
}

// flaps is how often one peer ends and returns.
const flaps = 5

// flap lets the API server of one peer end and return. Nothing that it exports changes.
func (s *stage) flap(ctx context.Context, z size) ([]row, error) {
	spent, err := s.during(ctx, fmt.Sprintf("one peer ends and returns, %d times", flaps), func() error {
		for range flaps {
			if err := s.peers[0].Refuse(); err != nil {
				return err
			}
			if err := s.connected(ctx, z.world.Peers-1); err != nil {
				return err
			}
			if err := s.resume(ctx, 0, z.world); err != nil {
				return err
			}
		}
		return nil
	})
	return []row{
		{"one peer ends and returns: plans, each time", spent.plans / flaps, "names"},
		{"one peer ends and returns: writes", spent.writes, "writes"},
	}, err
}

// resume lets the API server of a peer start again, and waits until all peers are connected.
func (s *stage) resume(ctx context.Context, peer int, w simulated.World) error {
	s.peers[peer].Forget()
	if err := s.peers[peer].Resume(ctx); err != nil {
		return err
	}
	return s.connected(ctx, w.Peers)
}

// rolling lets the API servers of all peers end and return, one after another, as an upgrade of the clusters does.
func (s *stage) rolling(ctx context.Context, z size) ([]row, error) {
	var took time.Duration
	spent, err := s.during(ctx, "all peers end and return, one after another", func() error {
		began := time.Now()
		for i, peer := range s.peers {
			if err := peer.Refuse(); err != nil {
				return err
			}
			if err := s.connected(ctx, z.world.Peers-1); err != nil {
				return err
			}
			if err := s.resume(ctx, i, z.world); err != nil {
				return err
			}
		}
		took = time.Since(began)
		return nil
	})
	return []row{
		{"all peers end and return: the time for each", took.Seconds() / float64(len(s.peers)), "s"},
		{"all peers end and return: writes", spent.writes, "writes"},
		{"all peers end and return: CPU time of the controller for each", spent.cpu / float64(len(s.peers)) * 1000, "ms"},
	}, err
}

// connected waits until so many peers are connected.
func (s *stage) connected(ctx context.Context, want int) error {
	return wait(ctx, "count peers", 100*time.Millisecond, func() error {
		is, err := s.figure(ctx, "multicluster_peer_connected", nil)
		if err == nil && int(is) != want {
			err = fmt.Errorf("%d of %d peers are connected", int(is), want)
		}
		return err
	})
}

// arrivals are the addresses that are expected in slices of this cluster, and when they came.
type arrivals struct {
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	changed map[string]time.Time
	took    []time.Duration
	err     error // of a watch that ended too early
}

// follow watches the slices of this cluster.
func (s *stage) follow(ctx context.Context) (*arrivals, error) {
	api, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return nil, err
	}
	page, err := api.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	events, err := api.DiscoveryV1().EndpointSlices("").Watch(ctx, metav1.ListOptions{ResourceVersion: page.ResourceVersion})
	if err != nil {
		return nil, err
	}
	a := &arrivals{changed: map[string]time.Time{}}
	ctx, a.stop = context.WithCancel(ctx)
	a.running.Go(func() { a.read(ctx, events) })
	return a, nil
}

func (a *arrivals) read(ctx context.Context, events watch.Interface) {
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-events.ResultChan():
			slice, is := event.Object.(*discoveryv1.EndpointSlice)
			if !ok || !is {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.err = fmt.Errorf("the watch of EndpointSlices ended: %v", event.Object)
				return
			}
			a.note(slice)
		}
	}
}

func (a *arrivals) note(slice *discoveryv1.EndpointSlice) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, endpoint := range slice.Endpoints {
		if at, expected := a.changed[endpoint.Addresses[0]]; expected {
			a.took = append(a.took, now.Sub(at))
			delete(a.changed, endpoint.Addresses[0])
		}
	}
}

func (a *arrivals) expect(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed[address] = time.Now()
}

// complete returns what is missing.
func (a *arrivals) complete() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil || len(a.changed) == 0 {
		return a.err
	}
	return fmt.Errorf("%d addresses have not arrived", len(a.changed))
}

func (a *arrivals) delays() []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(slices.Values(a.took))
}

func (a *arrivals) end() {
	a.stop()
	a.running.Wait()
}

// percentile returns one of sorted times, in milliseconds.
func percentile(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[(len(sorted)-1)*percent/100]) / float64(time.Millisecond)
}
