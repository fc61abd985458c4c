package peers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// connectingToAll connects to the pods that have the endpoint.
func connectingToAll(all ...*pods) func(*Options) {
	return func(o *Options) {
		o.Connect = func(ctx context.Context, at datapath.Target) (bool, error) {
			for _, p := range all[1:] {
				if p.each[at] != nil {
					return p.connect(ctx, at)
				}
			}
			return all[0].connect(ctx, at)
		}
	}
}

// A peer without endpoints to test shows that this cluster has a network, as long as its API server
// answers: the others, which fell silent together, are dead.
func TestAPeerThatAnswersShowsTheNetwork(t *testing.T) {
	t.Parallel()
	first, firstWay, firstConfig := away(t)
	second, secondWay, secondConfig := away(t)
	third, _, thirdConfig := away(t)
	for _, c := range []*cluster{first, second} {
		c.export("v1beta1", "foo")
	}
	atFirst, atSecond := serve(t, first, "10.1.0.1", "10.1.0.2"), serve(t, second, "10.2.0.1", "10.2.0.2")
	r := newPlace(t).read(t, timeout(time.Hour), connectingToAll(atFirst, atSecond))
	r.join(first.id, firstConfig)
	r.join(second.id, secondConfig)
	r.join(third.id, thirdConfig)
	r.is(third.id, Connected)
	r.finds(first.id, datapath.Proven)
	r.finds(second.id, datapath.Proven)

	atFirst.fail(t)
	atSecond.fail(t)
	firstWay.Stall()
	secondWay.Stall()
	for _, c := range []*cluster{first, second} {
		r.finds(c.id, datapath.Dead, "all endpoints are removed")
		r.assumed(c, false)
	}
}

// A credential, or the controller of a peer, that fails is no reason to remove endpoints that answer. When they do not
// answer either, they leave at once.
func TestProvenEndpointsStayWhileAPeerCannotBeRead(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	pods := serve(t, there, "10.1.0.1", "10.1.0.2")
	foo := there.name("foo")
	good := kubeconfig(t, there.config)
	place := newPlace(t)
	r := place.read(t, timeout(5*time.Minute), connectingTo(pods))
	there.beats(1)
	r.join(there.id, good)
	r.beatIs(there.id, 1)
	r.finds(there.id, datapath.Proven)
	stay := func(reason string) {
		t.Helper()
		r.is(there.id, reason)
		for range 3 {
			r.clock.forward(5 * time.Minute)
			r.finds(there.id, datapath.Cut, "the peer is "+reason, "all endpoints stay")
			r.answers(there.id, r.clock.now())
		}
		if said := r.said(foo); said != there.id {
			t.Errorf("foo is reported by %q of a peer that is %s", said, reason)
		}
	}
	r.pass(there.id, muteAfter)
	stay(ControllerSilent)
	there.beats(2)
	r.is(there.id, Connected)
	r.finds(there.id, datapath.Proven)

	r.join(there.id, kubeconfig(t, there.config, func(_ *api.Cluster, u *api.AuthInfo) { u.Token = "x" }))
	stay(Unauthorized)
	again := pods.fail(t)
	r.finds(there.id, datapath.Dead)
	again()
	r.join(there.id, good)
	r.is(there.id, Connected)
	r.finds(there.id, datapath.Proven)
	r.says(foo, there.id)
}

// Without a quorum of etcd, a controller writes no heartbeat, and then its API server stops. Endpoints
// that answer keep such a peer.
func TestASilentControllerDoesNotBarThePeer(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	pods := serve(t, there, "10.1.0.1", "10.1.0.2")
	foo := there.name("foo")
	r := newPlace(t).read(t, timeout(5*time.Minute), connectingTo(pods))
	there.beats(1)
	r.join(there.id, config)
	r.beatIs(there.id, 1)
	r.finds(there.id, datapath.Proven)
	r.pass(there.id, muteAfter)
	r.is(there.id, ControllerSilent)
	r.says(foo, there.id)

	way.Stall()
	r.is(there.id, Unreachable)
	r.finds(there.id, datapath.Cut)
	r.clock.forward(10 * time.Minute)
	r.answers(there.id, r.clock.now())
	if said := r.said(foo); said != there.id {
		t.Errorf("foo is reported by %q", said)
	}
}

// Pods can be replaced a moment before the API server falls silent. The new ones are tested: the end of
// the former ones is no death.
func TestEndpointsAreChosenWhenASilenceBegins(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	fresh := serve(t, there, "10.1.0.3", "10.1.0.4")
	former := serve(t, there, "10.1.0.1", "10.1.0.2")
	foo := there.name("foo")
	r := newPlace(t).read(t, timeout(time.Hour), connectingToAll(former, fresh))
	r.join(there.id, config)
	r.finds(there.id, datapath.Proven)
	r.says(foo, there.id)

	calls := r.calls(foo)
	hasEndpoints(t, there, "10.1.0.3", "10.1.0.4")
	r.called(foo, calls) // the new endpoints are read
	former.fail(t)
	way.Stall()
	r.finds(there.id, datapath.Cut)
	if said := r.said(foo); said != there.id {
		t.Errorf("foo is reported by %q", said)
	}
}

// A peer whose controller is silent is read nevertheless: the endpoints of new pods are tested before the former ones end, so that these
// do not look like its death.
func TestNewPodsOfAPeerThatIsCutOffAreTested(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	fresh := serve(t, there, "10.1.0.3", "10.1.0.4")
	former := serve(t, there, "10.1.0.1", "10.1.0.2")
	var asked sync.Map
	r := newPlace(t).read(t, timeout(time.Hour), connectingToAll(former, fresh), func(o *Options) {
		connect := o.Connect
		o.ProbeInterval, o.Connect = 3*time.Second, func(ctx context.Context, at datapath.Target) (bool, error) {
			asked.Store(at, true)
			return connect(ctx, at)
		}
	})
	there.beats(1)
	r.join(there.id, kubeconfig(t, there.config))
	r.beatIs(there.id, 1)
	r.finds(there.id, datapath.Proven)
	r.pass(there.id, muteAfter)
	r.is(there.id, ControllerSilent)
	r.finds(there.id, datapath.Cut)

	hasEndpoints(t, there, "10.1.0.3", "10.1.0.4")
	kube.Eventually(t, "the new endpoints are tested", func() error {
		for at := range fresh.each {
			if _, is := asked.Load(at); !is {
				return fmt.Errorf("%v is not", at)
			}
		}
		return nil
	})
	former.fail(t)
	since := r.clock.now()
	r.answers(there.id, since)
	r.finds(there.id, datapath.Cut)
}
