package peers

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// newPlaces returns two namespaces of the home cluster. The first one is older.
func newPlaces(t *testing.T) (older string, p place) {
	t.Helper()
	older = kube.Namespace(t, home.Cluster(t))
	created, err := kubernetesOf(home.Cluster(t).Config).CoreV1().Namespaces().Get(t.Context(), older, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "a younger namespace is possible", func() error {
		if !time.Now().After(created.CreationTimestamp.Add(time.Second)) {
			return errors.New("not yet")
		}
		return nil
	})
	return older, newPlace(t)
}

func settles(t *testing.T, set *Registry, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		t.Errorf("it ended with %v", err)
	case <-set.Settled():
	case <-time.After(time.Minute):
		t.Error("it does not start")
	}
}

// A second installation of the controller in one cluster has other Secrets of peers, and would delete what the first one
// makes.
func TestASecondInstallationDoesNotStart(t *testing.T) {
	t.Parallel()
	older, p := newPlaces(t)
	runsIn(t, older, p.namespace)
	set, ended := p.starts(t)
	endsWith(t, ended, ErrSecondInstallation)
	select {
	case <-set.Settled():
		t.Error("it has settled: what it knows would be written")
	default:
	}
}

// Of two that begin at the same time, the one in the older namespace goes on.
func TestASecondInstallationEndsOneOfTwo(t *testing.T) {
	t.Parallel()
	older, p := newPlaces(t)
	set, ended := p.starts(t)
	settles(t, set, ended)
	runsIn(t, older, p.namespace)
	endsWith(t, ended, ErrSecondInstallation)
}

// What an installation has left behind in another namespace stops nothing, even if it has ended a moment ago. Nor does
// somebody who annotates a Namespace of theirs.
func TestWhatIsNoSecondInstallationStopsNothing(t *testing.T) {
	t.Parallel()
	older, p := newPlaces(t)
	left := &cluster{t: t, Cluster: home.Cluster(t), namespace: older}
	left.announce(p.namespace)
	left.beats(time.Now().UTC().Format(time.RFC3339))
	set, ended := p.starts(t)
	settles(t, set, ended)

	first, tenant := newPlaces(t)
	runsIn(t, tenant.namespace, first)
	set, ended = place{p.config, first, p.probeEvery}.starts(t)
	settles(t, set, ended)
	for range 3 { // heartbeats of the younger one
		seen := set.beatIn(tenant.namespace)
		kube.Eventually(t, "another heartbeat is seen", func() error {
			if set.beatIn(tenant.namespace) == seen {
				return errors.New("not yet")
			}
			return nil
		})
	}
	select {
	case err := <-ended:
		t.Errorf("it ended with %v", err)
	default:
	}
}

func (r *Registry) beatIn(namespace string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.identity.beats[namespace]
}
