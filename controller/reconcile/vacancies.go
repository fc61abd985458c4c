package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/merge"
)

// serviceGrace is how long an export without its Service keeps its last data. Commands such as
// `kubectl replace --force` delete a Service and create it again. Its EndpointSlices follow a
// moment later.
const serviceGrace = time.Minute

// peerGrace is how long a peer's export without slices keeps its last data. Somebody has deleted the slices there, and
// the peer's controller does not run at present: without it, all other changes of the peer wait, too.
const peerGrace = 24 * time.Hour

// replaceGrace is how long the deletion of an object has no effect. Commands such as kubectl replace --force create
// it again at once.
const replaceGrace = 5 * time.Second

// vacancies records since when exports have no Service, or are deleted. The zero value is empty.
type vacancies struct {
	mu    sync.Mutex
	since map[types.NamespacedName]map[string]time.Time // by name, then by cluster
}

// of returns the clusters of a name that have been vacant for less than their grace, and the time until
// the first of these periods ends, 0 for none. grace is 0 for a cluster that is not vacant now.
func (v *vacancies) of(name types.NamespacedName, members []merge.Member, grace func(merge.Member) time.Duration, now time.Time) (clusters []string, next time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before, after := v.since[name], map[string]time.Time{}
	for _, m := range members {
		grace := grace(m)
		if grace == 0 {
			continue
		}
		since, known := before[m.Cluster]
		if !known {
			since = now
		}
		after[m.Cluster] = since
		if left := grace - now.Sub(since); left > 0 {
			clusters = append(clusters, m.Cluster)
			if next == 0 || left < next {
				next = left
			}
		}
	}
	if v.since == nil {
		v.since = map[types.NamespacedName]map[string]time.Time{}
	}
	if v.since[name] = after; len(after) == 0 {
		delete(v.since, name)
	}
	return clusters, next
}
