package peers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// storm makes real connections in the place of those to endpoints, and records them. The peer is the
// third byte of an address.
type storm struct {
	alive, dead netip.AddrPort

	mu      sync.Mutex
	silent  bool
	begun   []time.Time
	running map[byte]int
	most    int // connections to one peer at a time
}

func newStorm(t *testing.T) *storm {
	t.Helper()
	port := kube.Greet(t, "127.0.0.1:0", "")
	return &storm{alive: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)), dead: kube.Deaf(t, "127.0.0.1:0"), running: map[byte]int{}}
}

func (s *storm) connect(ctx context.Context, at datapath.Target) (bool, error) {
	peer := at.Addr().As4()[2]
	s.mu.Lock()
	s.begun = append(s.begun, time.Now())
	s.running[peer]++
	s.most = max(s.most, s.running[peer])
	to := s.alive
	if s.silent {
		to = s.dead
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running[peer]--
		s.mu.Unlock()
	}()
	return ConnectTCP(ctx, to)
}

// fall makes all endpoints silent.
func (s *storm) fall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = true
}

// sums returns the number of connections, and the largest numbers of those that began within a second
// and of those to one peer at a time.
func (s *storm) sums() (all, inASecond, toOnePeer int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := 0
	for i, at := range s.begun {
		for at.Sub(s.begun[first]) >= time.Second {
			first++
		}
		inASecond = max(inASecond, i-first+1)
	}
	return len(s.begun), inASecond, s.most
}

// cpu returns the processor time of this process.
func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// 99 peers, with 8 endpoints each, are silent at once. All are found to be dead, and the connections
// stay within their bounds. The rates bound the connections of each second. What is counted here are
// the beginnings as this process notes them, which can be late: the average counts.
func TestProbeStorm(t *testing.T) {
	const count = 99
	there, way, config := away(t)
	s := newStorm(t)
	place := newPlace(t)
	place.probeEvery = 30 * time.Second // as outside tests
	r := place.read(t, timeout(time.Hour), func(o *Options) { o.Connect = s.connect })
	var all []*cluster
	var making sync.WaitGroup
	for i := range count {
		c := &cluster{t: t, Cluster: there.Cluster, namespace: kube.Namespace(t, there.Cluster)}
		c.id = c.namespace
		all = append(all, c)
		making.Go(func() {
			c.announce(c.id)
			var endpoints []string
			for j := range 8 {
				endpoints = append(endpoints, fmt.Sprintf("{addresses: [10.1.%d.%d]}", i+1, j+1))
			}
			c.export("v1beta1", "foo")
			before, rest, _ := strings.Cut(c.slice("foo", "10.1.0.1", c.id), "endpoints: ")
			_, after, _ := strings.Cut(rest, "\n")
			applyTo(t, c.Cluster, c.namespace, before+"endpoints: ["+strings.Join(endpoints, ", ")+"]\n"+after)
		})
	}
	making.Wait()
	for _, c := range all {
		readsMember(t, c.Cluster, c.namespace, there.namespace)
		r.join(c.id, c.in(config))
	}
	for _, c := range all {
		r.finds(c.id, datapath.Proven)
	}

	began, used := time.Now(), cpu()
	before, _, _ := s.sums()
	s.fall()
	way.Stall()
	for found := 0; found < count; found = r.findMoreDead(found) {
	}
	took := time.Since(began)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("%d peers are dead after %.1f s; %.2f of a core with the tests' API servers aside; heap %d MiB, %d goroutines", count, took.Seconds(), (cpu()-used).Seconds()/took.Seconds(), memory.HeapAlloc>>20, runtime.NumGoroutine())
	connections, inASecond, toOnePeer := s.sums()
	t.Logf("%d connections, at most %d in a second, at most %d to one peer at a time", connections, inASecond, toOnePeer)
	if mean := float64(connections-before) / time.Since(began).Seconds(); mean > 100 || toOnePeer > 64 {
		t.Errorf("%.1f connections a second, want at most 100; %d to one peer at a time, want at most 64", mean, toOnePeer)
	}
}

// findMoreDead waits until more peers than before are dead, and returns how many are.
func (r *reader) findMoreDead(before int) (dead int) {
	r.t.Helper()
	kube.EventuallyEvery(r.t, time.Second/5, fmt.Sprintf("more than %d peers are dead", before), func() error {
		list, err := r.client.CoordinationV1().Leases(r.namespace).List(r.t.Context(), metav1.ListOptions{LabelSelector: labelPath + "=" + string(datapath.Dead)})
		if err != nil {
			return err
		}
		if dead = len(list.Items); dead <= before {
			return errors.New("there are no more")
		}
		return nil
	})
	return dead
}

// A peer whose endpoints take connections up and never answer gets 64 at a time, and costs another
// peer nothing.
func TestConnectionsToOnePeerAreBounded(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	running := map[byte]int{}
	var r *reader
	hang := func(ctx context.Context, at datapath.Target) (bool, error) {
		peer := at.Addr().As4()[1]
		mu.Lock()
		running[peer]++
		mu.Unlock()
		if peer == 2 {
			return true, nil
		}
		<-ctx.Done()
		return false, ctx.Err()
	}
	there, other := newCluster(t, &east, "own"), newCluster(t, &east, "own")
	r = newPlace(t).read(t, func(o *Options) { o.Connect = hang })
	for _, c := range []*cluster{there, other} {
		r.join(c.id, kubeconfig(t, c.config))
		r.is(c.id, Connected)
	}
	targets := func(peer byte, n int) map[datapath.Target]bool {
		all := map[datapath.Target]bool{}
		for i := range n {
			all[netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, peer, 0, byte(i + 1)}), 80)] = false
		}
		return all
	}
	name := types.NamespacedName{Namespace: there.namespace, Name: "foo"}
	r.Check(name, map[string]map[datapath.Target]bool{there.id: targets(1, datapath.MaxChecked), other.id: targets(2, 1)})
	kube.Eventually(t, "64 connections run", func() error {
		mu.Lock()
		defer mu.Unlock()
		if running[1] < datapath.MaxConnecting {
			return fmt.Errorf("%d run", running[1])
		}
		return nil
	})
	mu.Lock()
	before := running[2]
	mu.Unlock()
	kube.Eventually(t, "the other peer is checked", func() error {
		mu.Lock()
		defer mu.Unlock()
		if running[2] < before+2 {
			return fmt.Errorf("%d connections", running[2])
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	if running[1] != datapath.MaxConnecting {
		t.Errorf("%d connections to one peer run", running[1])
	}
}
