package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

// World is a set of joined clusters, as one test has it. Its methods fail the test.
type World struct {
	testing.TB
	Clusters []*Cluster
	// Way is what c2 reads c1 through, and nil in Three.
	Way *faultproxy.API

	usual func(*Cluster) []Option
}

// Option changes the options of a controller.
type Option = func(*reconcile.Options)

// set is started by the first test that asks for it, and stopped by Main.
type set struct {
	cidrs []string
	usual func(*Cluster) []Option // options of the controllers

	once     sync.Once
	clusters []*Cluster
	err      error

	mu      sync.Mutex // parallel tests ask at the same time
	running bool       // the controllers, which tests share
}

var (
	three = set{cidrs: []string{"10.1.0.0/16,fd00:1::/112", "10.2.0.0/16,fd00:2::/112", "10.3.0.0/16"}, usual: ofThree}
	two   = set{cidrs: []string{"10.1.0.0/16,fd00:1::/112", "10.2.0.0/16,fd00:2::/112"}, usual: func(*Cluster) []Option { return nil }}
)

// Main runs the tests of a package, stops what they have started beside the clusters, and the clusters. It returns the
// exit code.
func Main(m *testing.M, stop ...func()) int {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	for _, beside := range stop {
		beside()
	}
	for _, c := range slices.Concat(three.clusters, two.clusters) {
		if err := c.Stop(); err != nil {
			fmt.Fprintf(os.Stderr, "stop %s: %v\n", c.ID, err)
			code = max(code, 1)
		}
	}
	return code
}

// Three gives the clusters c1, c2 and c3 that all tests of a package share: joined all to all, each with its controller.
// c1 and c2 are dual-stack and in the region eu, c3 has IPv4 only and is in the region us. c1 and c2 describe their
// Services to peers, c3 lets them read the Services. Exports may ask for native names in the namespaces with the label
// native-names=yes.
func Three(t testing.TB) *World {
	t.Helper()
	w := three.start(t)
	three.mu.Lock()
	defer three.mu.Unlock()
	if !three.running {
		three.running = true
		for _, id := range w.IDs() {
			w.Run(id)
		}
	}
	return w
}

// Two gives the clusters c1 and c2, which tests use one after the other: joined, c2 with c1 through Way, and without
// controllers. Run starts them. All is as it was at first, also when the test before has failed; a test that changes what
// Install makes calls Install at its end.
func Two(t testing.TB) *World {
	t.Helper()
	w := two.start(t)
	w.reset()
	w.Cleanup(w.endAll)
	c1 := w.Cluster("c1")
	var err error
	if w.Way, err = faultproxy.Before(c1.Reader); err != nil {
		t.Fatal(err)
	}
	w.Cleanup(func() { _ = w.Way.Close() })
	kubeconfig, err := w.Way.Kubeconfig(c1.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Cluster("c2").Join(t.Context(), "c1", kubeconfig); err != nil {
		t.Fatal(err)
	}
	return w
}

// Joined starts clusters for this test alone, joined all to all, without controllers: for a test in a network of its own, or whose clusters
// have other names.
func Joined(t testing.TB, ids ...string) *World {
	t.Helper()
	kube.NotShort(t)
	ctrl.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(t.Context(), starting)
	defer cancel()
	var cidrs []string
	for i := range ids {
		cidrs = append(cidrs, fmt.Sprintf("10.%d.0.0/16", i+1))
	}
	clusters, err := startSet(ctx, ids, cidrs)
	w := Of(t, clusters...)
	w.Cleanup(func() {
		for _, c := range clusters {
			w.Check(c.Stop())
		}
	})
	w.Must(err)
	return w
}

// Of gives clusters that a test has started itself, and stops.
func Of(t testing.TB, clusters ...*Cluster) *World {
	return &World{TB: t, Clusters: clusters, usual: func(*Cluster) []Option { return nil }}
}

// For is the same for a subtest.
func (w *World) For(t testing.TB) *World {
	other := *w
	other.TB = t
	return &other
}

func (s *set) start(t testing.TB) *World {
	t.Helper()
	kube.NotShort(t)
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), starting)
		defer cancel()
		s.clusters, s.err = startSet(ctx, []string{"c1", "c2", "c3"}[:len(s.cidrs)], s.cidrs)
	})
	if s.err != nil {
		t.Fatalf("start %d clusters: %v", len(s.cidrs), s.err)
	}
	return &World{TB: t, Clusters: s.clusters, usual: s.usual}
}

// starting has time for the first build of the programs.
const starting = 15 * time.Minute

// startSet starts clusters with these ranges of ClusterIPs, joined all to all, without controllers. Those that started it gives also with an
// error.
func startSet(ctx context.Context, ids, cidrs []string) ([]*Cluster, error) {
	all := make([]*Cluster, len(ids))
	failed := make([]error, len(ids))
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			all[i], failed[i] = Start(ctx, id, kube.Options{ServiceCIDRs: cidrs[i]})
		})
	}
	wg.Wait()
	all = slices.DeleteFunc(all, func(c *Cluster) bool { return c == nil })
	return all, errors.Join(append(failed, joinAll(ctx, all))...)
}

func joinAll(ctx context.Context, all []*Cluster) error {
	var failed []error
	for _, c := range all {
		for _, peer := range all {
			if c != peer {
				failed = append(failed, c.Join(ctx, peer.ID, peer.ReaderKubeconfig))
			}
		}
	}
	return errors.Join(failed...)
}

func ofThree(c *Cluster) []Option {
	regions := map[string]string{"c1": "eu", "c2": "eu", "c3": "us"}
	return []Option{AllowNativeNames, func(o *reconcile.Options) {
		var err error
		if o.Identity, err = reconcile.NewIdentity(c.Account, c.ID, "topology.kubernetes.io/region="+regions[c.ID]); err != nil {
			panic(err) // the texts are constants
		}
	}}
}

// AllowNativeNames lets exports ask for native names in the namespaces with the label native-names=yes.
func AllowNativeNames(o *reconcile.Options) {
	if err := o.NativeNames.UnmarshalText([]byte("native-names=yes")); err != nil {
		panic(err) // the selector is a constant
	}
}

// Late is a context that outlives the test, for what tidies up after it.
func (w *World) Late() context.Context { return context.WithoutCancel(w.Context()) }

// reset brings the clusters back to what they were at first, joined and without controllers.
func (w *World) reset() {
	w.Helper()
	ctx := w.Late() // also in a Cleanup
	w.endAll()
	for _, c := range w.Clusters {
		if err := c.clean(ctx); err != nil {
			w.Fatalf("clean %s: %v", c.ID, err)
		}
	}
	for _, c := range w.Clusters {
		w.Until("the namespaces of other tests go", func() error { return c.isEmpty(ctx) })
	}
	if err := joinAll(ctx, w.Clusters); err != nil {
		w.Fatal(err)
	}
}

func (w *World) endAll() {
	w.Helper()
	for _, c := range w.Clusters {
		if err := c.End(); err != nil {
			w.Errorf("the controller of %s ended with: %v", c.ID, err)
		}
	}
}

// IDs are those of all clusters.
func (w *World) IDs() (all []string) {
	for _, c := range w.Clusters {
		all = append(all, c.ID)
	}
	return all
}

// Cluster is the one with an ID.
func (w *World) Cluster(id string) *Cluster {
	w.Helper()
	at := slices.IndexFunc(w.Clusters, func(c *Cluster) bool { return c.ID == id })
	if at < 0 {
		w.Fatalf("there is no cluster %s", id)
	}
	return w.Clusters[at]
}

// oftener lets nothing wait for half a minute.
func oftener(o *reconcile.Options) { o.Heartbeat, o.ProbeInterval = 3*time.Second, 3*time.Second }

// Run starts the controller of a cluster.
func (w *World) Run(id string, change ...Option) {
	w.Helper()
	c := w.Cluster(id)
	if err := c.Run(w.Late(), slices.Concat([]Option{oftener}, w.usual(c), change)...); err != nil {
		w.Fatalf("start the controller of %s: %v", id, err)
	}
}

// End ends the controller of a cluster, and waits for it.
func (w *World) End(id string) {
	w.Helper()
	if err := w.Cluster(id).End(); err != nil {
		w.Fatalf("the controller of %s ended with: %v", id, err)
	}
}

// Restart starts a controller again, with other options. A test of Three restarts it without them at its end.
func (w *World) Restart(id string, change ...Option) {
	w.Helper()
	w.End(id)
	w.Run(id, change...)
}

// Until waits for a condition. If it does not come, the test fails with the last error.
func (w *World) Until(what string, condition func() error) {
	w.Helper()
	kube.Eventually(w, what, condition)
}

// Must ends the test with an error.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// Check fails the test with an error, and goes on.
func (w *World) Check(err error) {
	w.Helper()
	if err != nil {
		w.Error(err)
	}
}
