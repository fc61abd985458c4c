package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

// pods are the endpoints of a peer. Each is a proxy on the loopback interface that stands for the
// address in the slice.
type pods struct {
	t    testing.TB
	each map[datapath.Target]*faultproxy.Proxy
}

// serve creates pods, and the slice of foo with their addresses.
func serve(t *testing.T, there *cluster, addresses ...string) *pods {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	p := &pods{t, map[datapath.Target]*faultproxy.Proxy{}}
	for _, address := range addresses {
		proxy, err := faultproxy.Listen(server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		p.each[mustTarget(t, address)] = proxy
	}
	hasEndpoints(t, there, addresses...)
	return p
}

// hasEndpoints makes addresses the endpoints of foo.
func hasEndpoints(t *testing.T, there *cluster, addresses ...string) {
	t.Helper()
	var endpoints []string
	for _, address := range addresses {
		endpoints = append(endpoints, "{addresses: ["+address+"]}")
	}
	text := there.slice("foo", addresses[0], there.id)
	before, after, _ := strings.Cut(text, "endpoints: ")
	_, after, _ = strings.Cut(after, "\n")
	applyTo(t, there.Cluster, there.namespace, before+"endpoints: ["+strings.Join(endpoints, ", ")+"]\n"+after)
}

func mustTarget(t testing.TB, address string) datapath.Target {
	t.Helper()
	at, err := netip.ParseAddrPort(address + ":8080")
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// connect connects to the proxy that stands for an endpoint.
func (p *pods) connect(ctx context.Context, at datapath.Target) (bool, error) {
	proxy := p.each[at]
	if proxy == nil {
		p.t.Errorf("a connection to %v, which is no endpoint", at)
		return false, nil
	}
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", proxy.Address())
	if err == nil {
		_ = conn.Close()
	}
	return err == nil, ctx.Err()
}

// fail makes all pods refuse connections.
func (p *pods) fail(t *testing.T) (resume func()) {
	t.Helper()
	var all []func()
	for _, proxy := range p.each {
		all = append(all, refuse(t, proxy))
	}
	return func() {
		for _, resume := range all {
			resume()
		}
	}
}

func connectingTo(p *pods) func(*Options) { return func(o *Options) { o.Connect = p.connect } }

// finds waits until the Lease of a peer has a verdict.
func (r *reader) finds(id string, want datapath.Verdict, words ...string) {
	r.t.Helper()
	kube.Eventually(r.t, "the way to the endpoints of "+id+" is "+string(want), func() error {
		l, err := r.leaseOf(id)
		if err != nil {
			return err
		}
		text := l.Annotations[annotationPath]
		if l.Labels[labelPath] != string(want) {
			return fmt.Errorf("it is %q: %s", l.Labels[labelPath], text)
		}
		for _, word := range words {
			if !strings.Contains(text, word) {
				return fmt.Errorf("the message %q does not contain %q", text, word)
			}
		}
		return nil
	})
}

// answers waits until endpoints of a peer have answered since a time.
func (r *reader) answers(id string, since time.Time) {
	r.t.Helper()
	kube.Eventually(r.t, fmt.Sprintf("endpoints of %s have answered since %v", id, since), func() error {
		r.Registry.mu.RLock()
		defer r.Registry.mu.RUnlock()
		r.prober.mu.Lock()
		defer r.prober.mu.Unlock()
		if last := r.peers[id].way.Counts().Last; last.Before(since) {
			return fmt.Errorf("the last one at %v", last)
		}
		return nil
	})
}

// A peer with a silent API server keeps its endpoints as long as one of them answers. It loses them
// at once when they do not answer either, and has them again when they do.
func TestADeadPeerIsToldFromOneThatIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		says    string
		silence func(*testing.T, *faultproxy.Proxy) (resume func())
	}{
		"no answer": {"ping", func(_ *testing.T, way *faultproxy.Proxy) func() { return way.Stall() }},
		"refused":   {"refused", refuse},
	} {
		t.Run(name, func(t *testing.T) { cutOffThenDead(t, c.says, c.silence) })
	}
}

func cutOffThenDead(t *testing.T, says string, silence func(*testing.T, *faultproxy.Proxy) (resume func())) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	pods := serve(t, there, "10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4")
	foo := there.name("foo")
	place := newPlace(t)
	r := place.read(t, timeout(time.Minute), connectingTo(pods))
	r.join(there.id, config)
	r.is(there.id, Connected)
	r.finds(there.id, datapath.Proven, "4 of 4")
	r.says(foo, there.id)

	resume := silence(t, way)
	r.finds(there.id, datapath.Cut, "of 4")
	r.is(there.id, Unreachable, says)
	calls := r.calls(foo)
	for range 3 { // far beyond the timeout
		r.clock.forward(time.Minute)
		r.finds(there.id, datapath.Cut)
	}
	r.is(there.id, Unreachable, "not even the answer to a ping", says) // what a request met is not hidden by the silence
	if r.said(foo) != there.id || r.calls(foo) != calls {
		t.Errorf("foo is reported by %q, with %d calls", r.said(foo), r.calls(foo)-calls)
	}

	again := pods.fail(t)
	r.finds(there.id, datapath.Dead, "4 tested endpoints")
	r.says(foo, "")
	r.assumed(there, true) // there is no other peer to show on which side the fault is
	again()
	r.finds(there.id, datapath.Cut)
	r.says(foo, there.id) // at once, the first time
	resume()
	r.is(there.id, Connected)
	r.finds(there.id, datapath.Proven)
	r.says(foo, there.id)
	told := r.told(there.id)
	for _, reason := range []string{"DataPathProven", Unreachable, "DataPathCut", "DataPathDead", "DataPathCut", Connected, "DataPathProven"} {
		i := slices.Index(told, reason)
		if i < 0 {
			t.Fatalf("the events %v do not contain %s in this order", r.told(there.id), reason)
		}
		told = told[i+1:]
	}
}

// Behind a load balancer that accepts every connection, a dead cluster looks cut off. With a limit, it
// expires as if nothing were proven.
func TestACutOffPeerExpiresAfterTheLimit(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	pods := serve(t, there, "10.1.0.1", "10.1.0.2")
	foo := there.name("foo")
	r := newPlace(t).read(t, timeout(time.Minute), connectingTo(pods), func(o *Options) { o.CutOffTimeout = 30 * time.Minute })
	r.join(there.id, config)
	r.finds(there.id, datapath.Proven)

	resume := way.Stall()
	r.finds(there.id, datapath.Cut, "all endpoints stay until --cut-off-timeout=30m0s")
	for _, on := range []time.Duration{20 * time.Minute, 9*time.Minute + 30*time.Second} {
		r.clock.forward(on)
		r.answers(there.id, r.clock.now())
	}
	if said := r.said(foo); said != there.id {
		t.Errorf("before the limit, foo is reported by %q", said)
	}
	r.clock.forward(40 * time.Second)
	r.finds(there.id, datapath.Cut, "--cut-off-timeout=30m0s has passed")
	if said := r.said(foo); said != there.id {
		t.Errorf("before the timeout that begins now, foo is reported by %q", said)
	}
	r.clock.forward(2 * time.Minute)
	r.says(foo, "")
	resume()
	r.is(there.id, Connected)
	r.says(foo, there.id)
}

// Endpoints that have never answered prove nothing: the timeout decides.
func TestEndpointsThatNeverAnsweredProveNothing(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	pods := serve(t, there, "10.1.0.1", "10.1.0.2", "10.1.0.3")
	pods.fail(t)
	foo := there.name("foo")
	r := newPlace(t).read(t, timeout(time.Minute), connectingTo(pods))
	r.join(there.id, config)
	r.is(there.id, Connected)
	r.finds(there.id, datapath.Unknown, "none of 3", "network policies")
	r.says(foo, there.id)
	resume := refuse(t, way)
	r.is(there.id, Unreachable)
	r.clock.forward(59 * time.Second)
	if r.said(foo) != there.id {
		t.Errorf("foo is reported by %q before the timeout", r.said(foo))
	}
	r.clock.forward(time.Second)
	r.says(foo, "")
	resume()
	r.says(foo, there.id)
	if told := r.told(there.id); !slices.Contains(told, "DataPathUnknown") || slices.Contains(told, "DataPathDead") {
		t.Errorf("events %v", told)
	}
}

// A controller that starts while a peer is cut off finds the endpoints in its own cluster.
func TestARestartWhileAPeerIsCutOff(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	pods := serve(t, there, "10.1.0.1", "10.1.0.2", "10.1.0.3")
	foo := there.name("foo")
	place := newPlace(t)
	r := place.read(t, timeout(time.Minute), connectingTo(pods))
	r.join(there.id, config)
	r.finds(there.id, datapath.Proven)
	// What this cluster has of foo. The Registry itself writes no slices.
	applyTo(t, home.Cluster(t), place.namespace, there.slice("foo", "10.1.0.2", there.id))
	way.Stall()
	r.finds(there.id, datapath.Cut)
	r.stop()

	ahead := r.clock
	ahead.forward(10 * time.Minute) // Nobody could see whether endpoints answer.
	r = place.read(t, timeout(time.Minute), connectingTo(pods), func(o *Options) { o.Now = ahead.now })
	r.clock = ahead
	r.finds(there.id, datapath.Cut, "of 1 tested")
	r.clock.forward(10 * time.Minute)
	r.finds(there.id, datapath.Cut, "of 1 tested")
	if got := r.said(foo); got != "?"+there.id {
		t.Errorf("foo is reported by %q", got)
	}
	pods.fail(t)
	r.finds(there.id, datapath.Dead)
	kube.Eventually(t, "the endpoints leave", func() error {
		if s := r.Snapshot(foo); !slices.Equal(s.UnknownExpired, []string{there.id}) {
			return errors.New("they are still used")
		}
		return nil
	})
}

// An accepted connection that shows nothing new changes nothing that the Lease of a peer contains.
func TestAnAcceptedConnectionWritesNoLease(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := New(Options{Connect: func(context.Context, datapath.Target) (bool, error) { return true, nil }, Now: func() time.Time { return now }})
	p := &peer{registry: r, id: "east", condition: condition{reason: Connected, connected: true}}
	p.way.Follow([]datapath.Target{mustTarget(t, "10.1.0.1")})
	var before condition
	for i := range 3 {
		now = now.Add(datapath.Interval)
		at, due := p.way.Due(now)
		if !due {
			t.Fatal("the endpoint is not due")
		}
		p.way.Answer(at, true, now)
		p.observeLocked()
		if i > 0 && p.condition != before {
			t.Errorf("%+v has become %+v", before, p.condition)
		}
		before = p.condition
	}
	if before.path != datapath.Proven {
		t.Errorf("the way is %s", before.path)
	}
}
