package peers

import (
	"context"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// runsIn announces an ID in a namespace of the home cluster, with a heartbeat each second, until the test ends.
func runsIn(t *testing.T, namespace, id string) {
	t.Helper()
	other := &cluster{t: t, Cluster: home.Cluster(t), namespace: namespace}
	other.announce(id)
	beat := func() { other.beats(time.Now().UTC().Format(time.RFC3339)) }
	beat()
	ended, end := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Second):
				beat()
			}
		}
	}()
	t.Cleanup(func() { close(end); <-ended })
}

// starts starts a Registry, and returns the channel of its error.
func (p place) starts(t *testing.T) (*Registry, <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	o := p.options(ctx, &reader{t: t, clock: &clock{}})
	o.Heartbeat = 3 * time.Second
	set := New(o)
	ended := make(chan error, 1)
	go func() { ended <- set.Start(ctx) }()
	return set, ended
}

// A second installation of the controller in one cluster has other Secrets of peers, and would delete what the first one
// makes.
func TestASecondInstallationDoesNotStart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	runsIn(t, kube.Namespace(t, home.Cluster(t)), p.namespace)
	set, ended := p.starts(t)
	endsWith(t, ended, ErrSecondInstallation)
	select {
	case <-set.Settled():
		t.Error("it has settled: what it knows would be written")
	default:
	}
}

// Of two that begin at the same time, the one in the namespace with the smaller name goes on.
func TestASecondInstallationEndsOneOfTwo(t *testing.T) {
	t.Parallel()
	p, other := newPlace(t), newPlace(t)
	if other.namespace > p.namespace {
		p, other = other, p
	}
	set, ended := p.starts(t)
	select {
	case <-set.Settled():
	case <-time.After(time.Minute):
		t.Fatal("it does not start")
	}
	runsIn(t, other.namespace, p.namespace)
	endsWith(t, ended, ErrSecondInstallation)
}

// What an installation has left behind in another namespace stops nothing, even if it has ended a moment ago.
func TestWhatAnInstallationLeftBehindStopsNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	left := &cluster{t: t, Cluster: home.Cluster(t), namespace: kube.Namespace(t, home.Cluster(t))}
	left.announce(p.namespace)
	left.beats(time.Now().UTC().Format(time.RFC3339))
	set, ended := p.starts(t)
	select {
	case err := <-ended:
		t.Errorf("it ended with %v", err)
	case <-set.Settled():
	case <-time.After(time.Minute):
		t.Error("it does not start")
	}
}
