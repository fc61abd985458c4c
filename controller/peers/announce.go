package peers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/internal/member"
)

// defaultHeartbeat is the default of Options.Heartbeat.
const defaultHeartbeat = 30 * time.Second

// SetProperties sets the properties of this cluster, which are then announced to the peers. Before
// the first call, the properties that are announced already are in effect.
func (r *Registry) SetProperties(properties map[string]string) {
	r.mu.Lock()
	same := r.properties != nil && maps.Equal(r.properties, properties)
	r.properties = map[string]string{}
	maps.Copy(r.properties, properties)
	r.mu.Unlock()
	if !same {
		r.homeChanged(nil)
		r.callState(r.options.Home)
	}
}

// Properties returns the properties of this cluster. They are read-only.
func (r *Registry) Properties() map[string]string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.properties == nil {
		return r.home.members[r.options.Namespace].AllProperties()
	}
	return r.properties
}

// SetExportNamespaces sets the namespaces that this cluster exports from, if Options.ExportsAll is
// not set. They are announced to the peers.
func (r *Registry) SetExportNamespaces(names []string) {
	r.mu.Lock()
	text := strings.Join(names, ",")
	same := r.exporting != nil && *r.exporting == text
	r.exporting = &text
	r.mu.Unlock()
	if !same {
		r.homeChanged(nil)
	}
}

// Announced reports whether this cluster has announced that it exports from a namespace.
func (r *Registry) Announced(namespace string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.home.members[r.options.Namespace].Namespaces()[namespace]
}

// wantedLocked returns what this cluster announces. Until its properties and its namespaces are known, what it has
// announced before stays; without that, it exports nothing.
func (r *Registry) wantedLocked() member.Announcement {
	was, known := r.home.members[r.options.Namespace]
	want := member.Announcement{ID: r.options.Home, UID: r.home.uid, Version: r.options.Version, Properties: was.Properties}
	switch {
	case r.properties == nil:
	case len(r.properties) == 0:
		want.Properties = ""
	default:
		want.Properties = labels.FormatLabels(r.properties)
	}
	switch {
	case r.options.ExportsAll:
	case r.exporting != nil:
		want.Limited, want.Exports = true, *r.exporting
	case known:
		want.Limited, want.Exports = was.Limited, was.Exports
	default:
		want.Limited = true
	}
	return want
}

// announce keeps the announcement of this cluster until ctx ends. It returns an error if its Lease contains another ID. Overwriting it
// would start a fight with another controller, or hide an administrator's mistake. A restarted process exits again until the
// Lease is correct or removed, and everything stays unchanged.
func (r *Registry) announce(ctx context.Context) error {
	due := time.NewTicker(r.options.Heartbeat / 6)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.announcing:
		case <-due.C:
		}
		r.mu.RLock()
		id := r.home.members[r.options.Namespace].ID
		r.mu.RUnlock()
		if err := idFault(r.options.Home, r.options.Namespace, id, false); err != nil {
			return err
		}
		if other, _ := r.second(); other != "" {
			return r.secondFault(other)
		}
		if r.putAnnouncement(ctx) != nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
			r.homeChanged(nil)
		}
	}
}

// newAnnouncements limits the writes of the announcement, so that there is no fight with another writer: one at each look at the
// heartbeat. The burst is for a start, when this cluster's namespaces and properties become known.
func newAnnouncements(heartbeat time.Duration) *rate.Limiter {
	return rate.NewLimiter(rate.Every(heartbeat/6), 5)
}

// putAnnouncement writes the announcement of this cluster if it differs, or if a heartbeat is due. It logs an error.
func (r *Registry) putAnnouncement(ctx context.Context) error {
	r.mu.RLock()
	was, want, lasts := r.home.members[r.options.Namespace], r.wantedLocked(), r.home.lasts
	r.mu.RUnlock()
	now := r.options.Now()
	if !lasts || want.UID == "" || was.Same(want) && now.Sub(r.beaten) < r.options.Heartbeat || !r.announcements.Allow() {
		return nil
	}
	want.Renewed = now.Truncate(time.Second)
	l, unset := want.Lease(r.options.Namespace, r.options.muteAfter())
	l.ResourceVersion = was.version
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := r.options.Writer.PutLease(ctx, l, unset...)
	switch {
	case err == nil:
		r.beaten = now
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		// The event of that write, or the ticker, causes the next try.
		r.options.Log.V(1).Info("somebody else has written the Lease that announces this cluster", "reason", err.Error())
		return nil
	default:
		r.options.Log.Error(err, "cannot write the Lease that announces this cluster to its peers", "lease", member.Name, "namespace", r.options.Namespace)
	}
	return err
}

// ErrSecondInstallation: a controller with this cluster's ID runs in another namespace of this cluster. Each of the two
// would delete what the other one creates, because the other one has other Secrets of peers. The leader
// election is one for each namespace, and does not help.
var ErrSecondInstallation = errors.New("a second controller runs in this cluster")

// second returns a namespace in which another controller of this cluster runs, and whose Lease is older than that of this
// controller: its heartbeat has changed between two calls, or the first one came after this controller's start. recent reports
// whether such a namespace has a heartbeat of the last minutes: its controller runs, or has just ended. Nodes of one cluster have
// one time. A younger Lease does not count: its controller is the second one, or a tenant wants to stop this one. Nor does
// one without the UID of this cluster, which most tenants cannot read.
func (r *Registry) second() (namespace string, recent bool) {
	now := r.options.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range slices.Sorted(maps.Keys(r.home.members)) {
		of := r.home.members[other]
		if !r.home.isOlder(other, r.options.Namespace) || of.ID != r.options.Home || of.UID != r.home.uid || now.Sub(of.Renewed).Abs() > r.options.muteAfter() {
			continue
		}
		recent = true
		if was, known := r.others[other]; (known || r.hasBegun()) && !was.Equal(of.Renewed) && namespace == "" {
			namespace = other
		}
		r.others[other] = of.Renewed
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
	return fmt.Errorf("%w: the Lease %s/%s announces the ID %q with a heartbeat that changes, and this controller is in %s. Each would delete what the other one makes, so this one, whose Lease is younger, writes nothing else. "+
		"Uninstall one of the two. If no controller runs in %[2]s, somebody else writes that Lease: delete it",
		ErrSecondInstallation, namespace, member.Name, r.options.Home, r.options.Namespace)
}

// alone announces this cluster, and waits, before any other write, until it is certain whether another controller runs in
// this cluster. Without a recent heartbeat in another namespace, it does not wait. Of two controllers that start at once, at least one
// reads the Lease of the other, and the younger one gives way.
func (r *Registry) alone(ctx context.Context) error {
	_ = r.putAnnouncement(ctx) // It is logged, and announce tries again.
	r.readMembers(ctx)
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

// readMembers reads the announcements of this cluster from the API server: a cache can be behind it.
func (r *Registry) readMembers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var list coordinationv1.LeaseList
	if err := r.options.Live.List(ctx, &list, client.MatchingFields{"metadata.name": member.Name}); err != nil {
		r.options.Log.Error(err, "cannot list the Leases of controllers in this cluster", "lease", member.Name)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list.Items {
		if of, ok := trimAnnounced(&list.Items[i]); ok {
			r.home.members[list.Items[i].Namespace] = of
		}
	}
}
