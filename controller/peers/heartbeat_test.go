package peers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// muteAfter is when a controller is silent that writes heartbeats as often as the default is.
var muteAfter = Options{Heartbeat: defaultHeartbeat}.muteAfter()

func TestHeartbeat(t *testing.T) {
	type step struct {
		value string // "deaf" if it cannot be read
		after time.Duration
		mute  bool
	}
	for name, steps := range map[string][]step{
		"regular":                    {{"a", 0, false}, {"b", 30 * time.Second, false}, {"c", 30 * time.Second, false}, {"d", 49 * time.Second, false}},
		"two are lost":               {{"a", 0, false}, {"a", 50 * time.Second, false}, {"a", 49 * time.Second, false}, {"b", time.Second, false}},
		"silent, and back":           {{"a", 0, false}, {"a", 50 * time.Second, false}, {"a", 50 * time.Second, false}, {"a", time.Second, true}, {"a", 10 * time.Hour, true}, {"b", time.Second, false}},
		"the API server was away":    {{"a", 0, false}, {"deaf", 50 * time.Second, false}, {"deaf", 50 * time.Second, false}, {"a", 50 * time.Second, false}, {"a", 49 * time.Second, false}, {"a", 2 * time.Second, true}},
		"silent, and both are away":  {{"a", 0, false}, {"a", 50 * time.Second, false}, {"a", 50 * time.Second, false}, {"a", time.Second, true}, {"deaf", 50 * time.Second, true}, {"a", time.Second, true}},
		"this process was suspended": {{"a", 0, false}, {"a", time.Hour, false}, {"b", time.Second, false}},
		"none from the beginning":    {{"", 0, false}, {"", 50 * time.Second, false}, {"", 49 * time.Second, false}, {"", 2 * time.Second, true}},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			var h heartbeat
			for i, s := range steps {
				now = now.Add(s.after)
				if s.value == "deaf" {
					h.deaf(now)
				} else {
					h.hear(s.value, now, muteAfter)
				}
				if h.mute != s.mute {
					t.Fatalf("step %d: silent %v, want %v", i, h.mute, s.mute)
				}
			}
		})
	}
}

// beats writes a heartbeat of the cluster's controller, in seconds of its clock.
func (c *cluster) beats(at int64) {
	c.t.Helper()
	c.announcing(func(a *member.Announcement) { a.Renewed = time.Unix(at, 0) })
}

// beatIs waits until the Registry has read a heartbeat.
func (r *reader) beatIs(id string, at int64) {
	r.t.Helper()
	kube.Eventually(r.t, fmt.Sprint("the heartbeat is ", at), func() error {
		l, err := r.leaseOf(id)
		if err == nil && l.Annotations[annotationBeat] != rfc3339(time.Unix(at, 0)) {
			err = fmt.Errorf("it is %q", l.Annotations[annotationBeat])
		}
		return err
	})
}

// pass lets time pass, in steps that are no suspension of the process.
func (r *reader) pass(id string, d time.Duration) {
	r.t.Helper()
	for ; d > 0; d -= muteAfter / 4 {
		r.clock.forward(min(d, muteAfter/4))
		r.Registry.mu.RLock()
		p := r.peers[id]
		r.Registry.mu.RUnlock()
		p.notify()
		kube.Eventually(r.t, "an evaluation", func() error {
			r.Registry.mu.RLock()
			defer r.Registry.mu.RUnlock()
			if p.beat.at.Before(r.clock.now().Add(-time.Second)) {
				return fmt.Errorf("the last one was at %v", p.beat.at)
			}
			return nil
		})
	}
}

// A peer whose API server answers and whose controller is silent loses its endpoints after the
// timeout, also over a restart, and has them again with the next heartbeat.
func TestASilentController(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	place := newPlace(t)
	r := place.read(t, timeout(5*time.Minute))
	r.join(there.id, kubeconfig(t, there.config))
	r.is(there.id, Connected)
	there.beats(1)
	r.beatIs(there.id, 1)
	r.pass(there.id, muteAfter*3/4)
	there.beats(2)
	r.beatIs(there.id, 2)
	r.pass(there.id, muteAfter*3/4)
	r.is(there.id, Connected)
	r.pass(there.id, muteAfter/2)
	r.is(there.id, ControllerSilent, "the last time was 1970-01-01T00:00:02Z", "1m40s")
	r.says(foo, there.id)

	r.stop()
	ahead := r.clock
	r = place.read(t, timeout(5*time.Minute), func(o *Options) { o.Now = ahead.now })
	r.clock = ahead
	r.is(there.id, ControllerSilent)
	r.clock.forward(5 * time.Minute)
	r.says(foo, "")
	there.beats(3)
	r.is(there.id, Connected)
	r.says(foo, there.id)
	if told := strings.Join(r.told(there.id), " "); told != Connected {
		t.Errorf("events after the restart: %s", told)
	}
}

// The Registry writes the heartbeat of its own cluster, and a peer reads it.
func TestTheOwnHeartbeat(t *testing.T) {
	t.Parallel()
	place := newPlace(t)
	r := place.read(t)
	beat := func() (time.Time, error) {
		got, err := announcedIn(t, home.Cluster(t), place.namespace)
		if err == nil && got.Renewed.IsZero() {
			err = errors.New("there is none")
		}
		return got.Renewed, err
	}
	var first time.Time
	kube.Eventually(t, "the first heartbeat", func() (err error) {
		first, err = beat()
		return err
	})
	r.clock.forward(defaultHeartbeat)
	kube.Eventually(t, "the next one", func() error {
		next, err := beat()
		if err == nil && next.Equal(first) {
			err = fmt.Errorf("it is still %s", next)
		}
		return err
	})
}
