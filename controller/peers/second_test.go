package peers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// runsIn announces an ID in a namespace of the home cluster, with a heartbeat each second, until the test ends.
func runsIn(t *testing.T, namespace, id string) {
	t.Helper()
	beat := func() {
		announceIn(t, home.Cluster(t), namespace, func(a *member.Announcement) { a.ID, a.Renewed = id, time.Now() })
	}
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

// leftIn announces an ID in a new namespace of the home cluster, whose controller ended an hour ago, and returns it when a younger
// Lease is possible.
func leftIn(t *testing.T, id string, change ...func(*member.Announcement)) (namespace string) {
	t.Helper()
	namespace = kube.Namespace(t, home.Cluster(t))
	announceIn(t, home.Cluster(t), namespace, func(a *member.Announcement) {
		a.ID, a.Renewed = id, time.Now().Add(-time.Hour)
		for _, edit := range change {
			edit(a)
		}
	})
	at := time.Now()
	kube.Eventually(t, "a younger Lease is possible", func() error {
		if !time.Now().After(at.Add(time.Second)) {
			return errors.New("not yet")
		}
		return nil
	})
	return namespace
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
	p := newPlace(t)
	runsIn(t, leftIn(t, p.namespace), p.namespace)
	set, ended := p.starts(t)
	endsWith(t, ended, ErrSecondInstallation)
	select {
	case <-set.Settled():
		t.Error("it has settled: what it knows would be written")
	default:
	}
}

// An installation that was stopped, and starts again after a second one was made, goes on.
func TestASecondInstallationEndsOneOfTwo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	older := leftIn(t, p.namespace)
	set, ended := p.starts(t)
	settles(t, set, ended)
	runsIn(t, older, p.namespace)
	endsWith(t, ended, ErrSecondInstallation)
}

// What an installation has left behind in another namespace stops nothing, even if it has ended a moment ago. Nor does a tenant who
// writes a Lease in a namespace of theirs: it is younger, or has not the UID of this cluster.
func TestWhatIsNoSecondInstallationStopsNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	leftIn(t, p.namespace, func(a *member.Announcement) { a.Renewed = time.Now() })
	foreign := leftIn(t, p.namespace, func(a *member.Announcement) { a.UID = "a-guess" })
	set, ended := p.starts(t)
	settles(t, set, ended)
	tenant := kube.Namespace(t, home.Cluster(t))
	runsIn(t, tenant, p.namespace)
	for range 3 { // heartbeats of both
		seen := set.beatIn(tenant)
		announceIn(t, home.Cluster(t), foreign, func(a *member.Announcement) { a.UID, a.Renewed = "a-guess", time.Now() })
		kube.Eventually(t, "another heartbeat is seen", func() error {
			if set.beatIn(tenant).Equal(seen) {
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

func (r *Registry) beatIn(namespace string) time.Time {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.home.members[namespace].Renewed
}
