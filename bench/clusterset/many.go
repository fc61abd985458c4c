package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

// many is one real cluster with its controller, and simulated peers.
type many struct {
	world World
	idle  time.Duration // how long requests and CPU time are counted while nothing changes

	*member
	peers []*peer
}

func (m *many) flags(f *flag.FlagSet) {
	m.world.Endpoints, m.world.Namespaces = 3, 10
	f.IntVar(&m.world.Peers, "peers", 99, "peers")
	f.IntVar(&m.world.Services, "services", 500, "Services that each peer exports")
	f.IntVar(&m.world.Shared, "shared", 0, "how many of them have the same names in all peers")
	f.DurationVar(&m.idle, "idle", 5*time.Minute, "how long requests are counted while nothing changes")
}

// run measures the first sync, then idleness, disturbances and a restart, and the floor.
func (m *many) run(ctx context.Context) (title string, rows []row) {
	w := m.world
	if w.Shared > w.Services {
		measure.Check(fmt.Errorf("--shared is %d, but there are only %d Services (--services)", w.Shared, w.Services))
	}
	ctx, cancel := context.WithCancel(ctx) // ends the heartbeats
	defer cancel()
	defer func() {
		if m.member != nil {
			_ = m.stop()
		}
	}()
	part(fmt.Sprintf("starting a cluster and %d peers", w.Peers), func() { m.start(ctx) })
	title = fmt.Sprintf("; all of it on this one machine\n%d simulated peers x %d exported Services x %d endpoints, %d of the names in all peers: %d imports, %d EndpointSlices",
		w.Peers, w.Services, w.Endpoints, w.Shared, w.Imports(), w.Slices())
	bare := floor{world: w, most: 200}
	what := fmt.Sprintf("the same writes by a bare client, 8 at a time (from up to %d names of each sort): the floor", bare.most)
	return title, bare.compare(ctx, set{m.member}, what, m.firstSync, m.idling, m.changes, m.flap, m.rolling, m.restart)
}

// start starts everything but the controller. The peers' endpoints are in 10.0.0.0/8.
func (m *many) start(ctx context.Context) {
	m.member = measure.Must(start(ctx, "home", "172.16.0.0/12"))
	for _, name := range m.world.AllNamespaces() {
		measure.Check(m.Admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	for i := range m.world.Peers {
		p := measure.Must(startPeer(ctx, m.world, i))
		m.peers = append(m.peers, p)
		measure.Check(m.Join(ctx, m.world.ID(i), measure.Must(p.kubeconfig())))
	}
	go func() { _ = m.world.Beat(ctx, m.peers) }()
}

// sync starts the controller, and gives the time until all imports are ready. It includes about a second for the objects of
// deploy/controller, which are applied first.
func (m *many) sync(ctx context.Context) time.Duration {
	began := time.Now()
	measure.Check(m.control(ctx))
	measure.Check(m.ready(ctx, m.world.Imports(), m.world.Slices()))
	return time.Since(began)
}

func (m *many) firstSync(ctx context.Context) []row {
	var took time.Duration
	spent := m.during(ctx, "the first sync", func() { took = m.sync(ctx) })
	return []row{
		{what: "first sync: until all imports are ready, with all slices", got: took.Seconds(), unit: "s"},
		{what: "writes of the first sync, for each import", got: spent.writes / float64(m.world.Imports()), unit: "writes"},
		{what: "CPU time of the controller for the first sync", got: spent.cpu, unit: "s"},
		{what: "memory of the controller, resident, after the first sync", got: spent.memory, unit: "MiB"},
		{what: "of it, what the last garbage collection left", got: spent.live, unit: "MiB"},
	}
}

func (m *many) during(ctx context.Context, what string, do func()) reading {
	return set{m.member}.during(ctx, what, do)[0]
}

// quiet waits until the controller is idle, and gives the time since which it is.
func (m *many) quiet(ctx context.Context) time.Time { return set{m.member}.quiet(ctx) }

// between gives what was used while something was done, from idleness until nothing is reconciled any more.
func (m *many) between(ctx context.Context, what string, do func()) reading {
	m.quiet(ctx)
	return m.during(ctx, what, func() {
		do()
		m.quiet(ctx)
	})
}

// idling measures while nothing changes but heartbeats.
func (m *many) idling(ctx context.Context) []row {
	m.quiet(ctx)
	requests, began := m.requests(), time.Now()
	spent := m.during(ctx, fmt.Sprintf("counting for %v while nothing changes", m.idle), func() { measure.Check(measure.Pause(ctx, m.idle)) })
	took := time.Since(began).Seconds()
	return []row{
		{what: "idle: requests to each peer a second", got: float64(m.requests()-requests) / took / float64(len(m.peers)), unit: "1/s"},
		{what: "idle: CPU time of the controller a second", got: spent.cpu / took * 1000, unit: "ms"},
		{what: "idle: writes", got: spent.writes, unit: "writes"},
		{what: "idle: memory of the controller, resident, at the end", got: spent.memory, unit: "MiB"},
	}
}

// requests returns how many requests all peers together have got.
func (m *many) requests() (total int64) {
	for _, peer := range m.peers {
		total += peer.requests.Load()
	}
	return total
}

// changes gives endpoints other addresses, at an even rate, each in the next peer, and measures when this cluster's slices have them.
func (m *many) changes(ctx context.Context) []row {
	seen := measure.Must(m.follow(ctx))
	const perSecond = 200
	// For a minute. An address that is replaced at once may never arrive, so each slice changes once at most.
	total := min(60*perSecond, m.world.Peers*m.world.Services)
	spent := m.between(ctx, fmt.Sprintf("%d changes, %d a second", total, perSecond), func() {
		measure.Check(measure.Steadily(ctx, perSecond, 1, total, func(i int) error { return m.change(i, seen) }))
		measure.Check(wait(ctx, "see all changes", 100*time.Millisecond, seen.complete))
	})
	took := seen.end()
	return []row{
		{what: "changes: from a peer's new address to the write here, median", got: measure.Quantile(took, 0.5), unit: "ms"},
		{what: "changes: the same, 99th percentile", got: measure.Quantile(took, 0.99), unit: "ms"},
		{what: "changes: writes for each", got: spent.writes / float64(total), unit: "writes"},
		{what: "changes: CPU time of the controller for each", got: spent.cpu / float64(total) * 1000, unit: "ms"},
	}
}

// change gives the first endpoint of a Service an address that nothing had before. Each change is in another slice.
func (m *many) change(i int, seen *arrivals) error {
	peer := i % m.world.Peers
	slice := m.world.Slice(peer, i/m.world.Peers%m.world.Services)
	address := measure.IP(128, i)
	slice.Endpoints[0].Addresses = []string{address}
	seen.expect(address)
	return m.peers[peer].Put(slice)
}

// flap lets the API server of one peer end and return. Nothing that it exports changes.
func (m *many) flap(ctx context.Context) []row {
	const flaps = 5
	spent := m.between(ctx, fmt.Sprintf("one peer ends and returns, %d times", flaps), func() {
		m.endAndReturn(ctx, slices.Repeat(m.peers[:1], flaps))
	})
	return []row{
		{what: "one peer ends and returns: plans, each time", got: spent.plans / flaps, unit: "names"},
		{what: "one peer ends and returns: writes", got: spent.writes, unit: "writes"},
	}
}

// rolling lets the API servers of all peers end and return, one after another, as an upgrade of the clusters does.
func (m *many) rolling(ctx context.Context) []row {
	var took time.Duration
	spent := m.between(ctx, "all peers end and return, one after another", func() {
		began := time.Now()
		m.endAndReturn(ctx, m.peers)
		took = time.Since(began)
	})
	each := float64(len(m.peers))
	return []row{
		{what: "all peers end and return: the time for each", got: took.Seconds() / each, unit: "s"},
		{what: "all peers end and return: writes", got: spent.writes, unit: "writes"},
		{what: "all peers end and return: CPU time of the controller for each", got: spent.cpu / each * 1000, unit: "ms"},
	}
}

// endAndReturn lets API servers of peers end and start again, one after another, each time until the controller has noticed.
func (m *many) endAndReturn(ctx context.Context, peers []*peer) {
	for _, peer := range peers {
		peer.refuse()
		m.connected(ctx, m.world.Peers-1)
		peer.Forget()
		measure.Check(peer.listen(ctx))
		m.connected(ctx, m.world.Peers)
	}
}

// connected waits until so many peers are connected.
func (m *many) connected(ctx context.Context, want int) {
	measure.Check(wait(ctx, "count peers", 100*time.Millisecond, func() error {
		all, err := m.figures(ctx)
		if err != nil {
			return err
		}
		if is := int(all("multicluster_peer_connected")); is != want {
			return fmt.Errorf("%d of %d peers are connected", is, want)
		}
		return nil
	}))
}

// restart measures until the controller has looked at everything again.
func (m *many) restart(ctx context.Context) []row {
	var took, all time.Duration
	spent := m.during(ctx, "a restart of the controller", func() {
		m.controller.Stop()
		began := time.Now()
		took = m.sync(ctx)
		all = m.quiet(ctx).Sub(began)
	})
	return []row{
		{what: "restart: until all imports are ready", got: took.Seconds(), unit: "s"},
		{what: "restart: until all names are reconciled", got: all.Seconds(), unit: "s"},
		{what: "restart: writes for an unchanged world", got: spent.writes, unit: "writes"},
		{what: "restart: memory of the controller, resident", got: spent.memory, unit: "MiB"},
	}
}
