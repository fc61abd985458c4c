package peers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// assumed waits until the endpoints of a peer for a name are removed only where others exist.
func (r *reader) assumed(there *cluster, want bool) {
	r.t.Helper()
	kube.Eventually(r.t, fmt.Sprintf("the death of %s is assumed: %v", there.id, want), func() error {
		for _, m := range r.Snapshot(there.name("foo")).Expired {
			if m.Cluster == there.id && m.Assumed == want && (len(m.Slices) > 0) == want {
				return nil
			}
		}
		return errors.New("it is not")
	})
}

// If all peers fall silent at once, this cluster can be the one without a network: the deaths are
// only assumed. As soon as one peer has been back for a while, the others are known to be dead.
func TestAllPeersFallSilentAtOnce(t *testing.T) {
	t.Parallel()
	first, firstWay, firstConfig := away(t)
	second, secondWay, secondConfig := away(t)
	for _, c := range []*cluster{first, second} {
		c.export("v1beta1", "foo")
	}
	atFirst, atSecond := serve(t, first, "10.1.0.1", "10.1.0.2"), serve(t, second, "10.2.0.1", "10.2.0.2")
	r := newPlace(t).read(t, timeout(time.Hour), func(o *Options) {
		o.Connect = func(ctx context.Context, at datapath.Target) (bool, error) {
			if atFirst.each[at] != nil {
				return atFirst.connect(ctx, at)
			}
			return atSecond.connect(ctx, at)
		}
	})
	r.join(first.id, firstConfig)
	r.join(second.id, secondConfig)
	r.finds(first.id, datapath.Proven)
	r.finds(second.id, datapath.Proven)

	atFirst.fail(t)
	endpointsAnswer := atSecond.fail(t)
	firstWay.Stall()
	resume := secondWay.Stall()
	for _, c := range []*cluster{first, second} {
		r.finds(c.id, datapath.Dead, "no other peer answers")
		r.assumed(c, true)
	}
	endpointsAnswer()
	resume()
	r.is(second.id, Connected)
	r.says(second.name("foo"), second.id)
	r.clock.forward(isolationGrace - 3*time.Second)
	r.finds(first.id, datapath.Dead, "all endpoints are removed")
	r.assumed(first, false)
	// The clock of the test runs, so only a lower bound can be asserted.
	r.Registry.mu.RLock()
	after := r.clock.now().Sub(r.peers[first.id].isolatedAt)
	r.Registry.mu.RUnlock()
	if after < 10*time.Second {
		t.Errorf("the death of %s was proven %v after the return of the other one", first.id, after)
	}
}

// An API server that starts before its pods gives no traffic to them.
func TestADeadPeerReturnsWithItsEndpoints(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	pods := serve(t, there, "10.1.0.1", "10.1.0.2")
	foo := there.name("foo")
	home := newPlace(t)
	r := home.read(t, timeout(time.Hour), connectingTo(pods))
	r.join(there.id, config)
	r.finds(there.id, datapath.Proven)
	again := pods.fail(t)
	resume := way.Stall()
	r.finds(there.id, datapath.Dead)
	r.says(foo, "")
	// Also if another replica leads since then, which has seen no endpoint answer.
	r.stop()
	r = home.read(t, timeout(time.Hour), connectingTo(pods))
	r.finds(there.id, datapath.Dead)
	resume()
	r.is(there.id, Connected)
	r.finds(there.id, datapath.Returning, "none of the tested endpoints does yet")
	r.stop()
	r = home.read(t, timeout(time.Hour), connectingTo(pods))
	r.says(foo, "")
	again()
	r.finds(there.id, datapath.Proven, "2 of 2")
	r.says(foo, there.id)
}

// Endpoints that answer keep a peer only if it was connected before its API server fell silent.
func TestSilenceGivesNoTrust(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	pods := serve(t, there, "10.1.0.1", "10.1.0.2")
	foo := there.name("foo")
	r := newPlace(t).read(t, timeout(time.Minute), connectingTo(pods))
	r.join(there.id, config)
	r.finds(there.id, datapath.Proven)
	there.announce("moved-" + there.id)
	r.is(there.id, WrongID)
	r.clock.forward(time.Minute)
	r.says(foo, "")
	way.Stall()
	r.is(there.id, Unreachable)
	r.finds(there.id, datapath.Cut)
	r.answers(there.id, r.clock.now())
	if said := r.said(foo); said != "" {
		t.Errorf("foo is reported by %q", said)
	}
}

// A fault of this host shows nothing about the endpoints of peers.
func TestFaultsOfThisHost(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	pods := serve(t, there, "10.1.0.1", "10.1.0.2")
	tried := make(chan struct{}, 100)
	r := newPlace(t).read(t, timeout(time.Hour), func(o *Options) {
		o.Connect = func(ctx context.Context, at datapath.Target) (bool, error) {
			select {
			case tried <- struct{}{}:
				return pods.connect(ctx, at)
			default:
				return false, errors.New("too many open files")
			}
		}
	})
	r.join(there.id, config)
	r.finds(there.id, datapath.Proven)
	for len(tried) < cap(tried) {
		tried <- struct{}{}
	}
	way.Stall()
	r.is(there.id, Unreachable)
	r.clock.forward(time.Minute)
	r.finds(there.id, datapath.Checking)
	if said := r.said(there.name("foo")); said != there.id {
		t.Errorf("foo is reported by %q", said)
	}
	for range 50 {
		<-tried
	}
	r.finds(there.id, datapath.Cut)
}

// ConnectTCP tells a fault of this host from an endpoint that does not answer.
func TestConnectTCP(t *testing.T) {
	here := func(port int32) datapath.Target {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		ctx  context.Context
		at   datapath.Target
		want string
	}{
		"accepted":  {t.Context(), here(kube.Greet(t, "127.0.0.1:0", "")), "true <nil>"},
		"refused":   {t.Context(), here(1), "false <nil>"},
		"no answer": {t.Context(), kube.Deaf(t, "127.0.0.1:0"), "false <nil>"},
		"ended":     {ended, here(1), "false dial tcp"},
	} {
		accepted, err := ConnectTCP(c.ctx, c.at)
		if got := fmt.Sprint(accepted, " ", err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if !slices.ContainsFunc(ownFaults, func(err error) bool { return err.Error() == "too many open files" }) {
		t.Error("too many open files is no fault of this host")
	}
}
