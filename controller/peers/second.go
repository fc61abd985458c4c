package peers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// ErrSecondInstallation: a controller with this cluster's ID runs in another namespace of this cluster. Each of the two
// would delete what the other one creates, because the other one has other Secrets of peers. The leader
// election is one for each namespace, and does not help.
var ErrSecondInstallation = errors.New("a second controller runs in this cluster")

// second returns a namespace in which another controller with this cluster's ID runs, and which is older than that of this
// controller: its heartbeat has changed between two calls, or the first one came after this controller's start. recent reports whether such a namespace has a heartbeat of the last
// minutes: its controller runs, or has just ended. Nodes of one cluster have one time. A younger namespace does not
// count: its controller is the second one, or somebody who can create Namespaces wants to stop this one.
func (r *Registry) second() (namespace string, recent bool) {
	now := r.options.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range slices.Sorted(maps.Keys(r.identity.beats)) {
		beat := r.identity.beats[other]
		at, err := time.Parse(time.RFC3339, beat)
		if !r.identity.isOlder(other, r.options.Namespace) || r.identity.by[other] != r.options.Home || err != nil || now.Sub(at).Abs() > r.options.muteAfter() {
			continue
		}
		recent = true
		if was, known := r.others[other]; (known || r.hasBegun()) && was != beat && namespace == "" {
			namespace = other
		}
		r.others[other] = beat
	}
	return namespace, recent
}

// hasBegun reports whether the start is over.
func (r *Registry) hasBegun() bool {
	select {
	case <-r.begun:
		return true
	default:
		return false
	}
}

func (r *Registry) secondFault(namespace string) error {
	return fmt.Errorf("%w: namespace %s announces the ID %q with a heartbeat that changes, and this controller is in %s. Each would delete what the other one makes, so this one, in the younger namespace, writes nothing. "+
		"Uninstall one of the two. If no controller runs in %[2]s, somebody else writes the annotation %[5]s there",
		ErrSecondInstallation, namespace, r.options.Home, r.options.Namespace, mcs.AnnotationHeartbeat)
}

// alone waits, before the first write, until it is certain whether another controller runs in this cluster. Without a
// recent heartbeat in another namespace, it does not wait.
func (r *Registry) alone(ctx context.Context) error {
	tick := time.NewTicker(min(time.Second, r.options.Heartbeat/6))
	defer tick.Stop()
	for began := time.Now(); ctx.Err() == nil; {
		other, recent := r.second()
		switch {
		case other != "":
			return r.secondFault(other)
		case !recent || time.Since(began) > r.options.Heartbeat*4/3:
			return nil
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}
