package reconcile

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/apply"
	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// memory is what the passes of one name leave for the next one. The queue never gives a name to two
// passes at once, so only the map of all names has a lock.
type memory struct {
	observed.Memory
	refusals  apply.Refusals
	contested contested.Memory
	awaited   awaited
	// stale is the pause after the last plan, if that was stale.
	stale time.Duration
	// lacksAddress is the time of the first refusal of an address, while the import waits for one.
	lacksAddress time.Time
	// seen means that the import has been planned.
	seen   bool
	former former
	// vacant is since when clusters lack what they exported.
	vacant vacancies
	// native is the Service of the own name, and deselected and disallowed are the name, after its
	// namespace is no longer selected for imports or for own names.
	native                 replaced
	deselected, disallowed deselected
	// ready and exports are the current conditions, as the metrics count them.
	ready   metav1.Condition
	exports []metav1.Condition
}

// memories has the memory of each name. The zero value is empty.
type memories struct {
	mu sync.Mutex
	by map[types.NamespacedName]*memory
}

func (m *memories) of(key types.NamespacedName) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = map[types.NamespacedName]*memory{}
	}
	if m.by[key] == nil {
		m.by[key] = &memory{}
	}
	return m.by[key]
}

// forget forgets a name of which nothing exists, unless something is still waited for.
func (m *memories) forget(key types.NamespacedName, st observed.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.by[key]; last != nil && !exists(st) && !last.waits() {
		last.count(metav1.Condition{}, nil)
		delete(m.by, key)
	}
}

// exists reports whether this cluster has an object of the name, or any cluster exports it.
func exists(st observed.State) bool {
	if st.Import != nil || len(st.Slices)+len(st.Owned) > 0 {
		return true
	}
	if st.Clusterset == nil {
		return false
	}
	for _, m := range st.Clusterset.Members {
		if m.Export != nil {
			return true
		}
	}
	return st.Clusterset.Export != nil || len(st.Native.Slices) > 0
}

// waits reports whether the memory matters although nothing of the name exists.
func (m *memory) waits() bool {
	return len(m.awaited.writes) > 0 || m.former.ips != "" || len(m.vacant) > 0 || m.native != replaced{} || m.deselected != deselected{} || m.disallowed != deselected{}
}

// formerFor is how long the addresses of a deleted import are remembered. A garbage collector frees
// them meanwhile, and another Service can get them.
const formerFor = time.Minute

// longestRecord is more than two IPv6 addresses need. A user can write any text to the annotation.
const longestRecord = 128

// former are the addresses of an import that was deleted a moment ago. An import that is replaced by
// force, or that a tool creates again, has no record of them. Without its address, it would fail for
// each client that has cached the answer.
type former struct {
	uid  types.UID // of the import
	ips  string    // its record
	gone time.Time // when it was first missed; zero while it exists
}

// of returns the record of the import that had the name before, or "" if there was none a moment ago,
// and when to ask again, 0 for never. It remembers the record of an import that has one.
func (f *former) of(imp *mcsv1beta1.ServiceImport, now time.Time) (ips string, again time.Duration) {
	if imp != nil && imp.Annotations[mcs.AnnotationClusterIPs] != "" {
		if *f = (former{uid: imp.UID, ips: imp.Annotations[mcs.AnnotationClusterIPs]}); len(f.ips) > longestRecord {
			*f = former{}
		}
		return "", 0
	}
	if f.ips != "" && f.gone.IsZero() {
		f.gone = now
	}
	left, removed := formerFor-now.Sub(f.gone), imp != nil && imp.UID == f.uid // A user has removed the record.
	if f.ips == "" || left <= 0 || removed {
		*f = former{}
		return "", 0
	}
	return f.ips, left
}

const (
	// serviceGrace is how long an export without its Service keeps its last data. Commands such as
	// `kubectl replace --force` delete a Service and create it again. Its EndpointSlices follow a
	// moment later.
	serviceGrace = time.Minute
	// peerGrace is how long a peer's export without slices keeps its last data. Somebody has deleted the
	// slices there, and the peer's controller does not run at present: without it, all other changes of
	// the peer wait, too.
	peerGrace = 24 * time.Hour
	// replaceGrace is how long the deletion of an object has no effect. Commands such as kubectl replace
	// --force create it again at once.
	replaceGrace = 5 * time.Second
)

// vacancies is since when clusters have an export without its Service, or have deleted it.
type vacancies map[string]time.Time

// of returns the clusters that have been vacant for less than their grace, and the time until the first
// of these periods ends, 0 for none. grace is 0 for a cluster that is not vacant now.
func (v *vacancies) of(members []merge.Member, grace func(merge.Member) time.Duration, now time.Time) (clusters []string, next time.Duration) {
	before := *v
	*v = nil
	for _, m := range members {
		grace := grace(m)
		if grace == 0 {
			continue
		}
		since, known := before[m.Cluster]
		if !known {
			since = now
		}
		if *v == nil {
			*v = vacancies{}
		}
		(*v)[m.Cluster] = since
		if left := grace - now.Sub(since); left > 0 {
			clusters = append(clusters, m.Cluster)
			next = observed.Sooner(next, left)
		}
	}
	return clusters, next
}

// replaced is the Service of an own name that is, or may be, active.
type replaced struct {
	existed bool
	deleted time.Time // zero while it exists
}

// left returns how long a name is left alone after its Service was deleted, by its user or by anybody
// else: a command that creates it again would fail if the controller had taken the name. active reports
// whether the own name is in use, or may be.
func (r *replaced) left(exists, active bool, now time.Time) time.Duration {
	switch {
	case exists || !r.existed:
		*r = replaced{existed: exists && active}
		return 0
	case r.deleted.IsZero():
		r.deleted = now
	}
	left := max(0, r.deleted.Add(replaceGrace).Sub(now))
	if left == 0 {
		*r = replaced{}
	}
	return left
}

// deselected is since when a namespace is no longer selected. Its names stay for a while: labels of a
// namespace are lost by mistake, and come back.
type deselected struct{ since time.Time }

// left returns how long a name stays. selected is the current selection, and imported reports whether
// the name was imported before.
func (d *deselected) left(selected, imported bool, now time.Time, grace time.Duration) time.Duration {
	switch {
	case selected || !imported:
		*d = deselected{}
		return 0
	case d.since.IsZero():
		d.since = now
	}
	return max(0, d.since.Add(grace).Sub(now))
}
