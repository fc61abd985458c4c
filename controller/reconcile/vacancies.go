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

// vacancies records since when exports have no Service. The zero value is empty.
type vacancies struct {
	mu    sync.Mutex
	since map[types.NamespacedName]map[string]time.Time // by name, then by cluster
}

// of returns the clusters of a name that have been vacant for less than grace, and the time until
// the first of these periods ends, 0 for none. vacant reports whether a cluster is vacant now.
func (v *vacancies) of(name types.NamespacedName, members []merge.Member, vacant func(merge.Member) bool, now time.Time, grace time.Duration) (clusters []string, next time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before, after := v.since[name], map[string]time.Time{}
	for _, m := range members {
		if m.Export == nil || !vacant(m) {
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
