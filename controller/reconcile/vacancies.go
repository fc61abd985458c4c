package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/merge"
)

// serviceGrace is how long an export without its Service counts with what it had. `kubectl replace --force` and the like delete a Service and
// create it anew, and its EndpointSlices follow a moment later.
const serviceGrace = time.Minute

// vacancies remembers since when exports have no Service. The zero value is empty.
type vacancies struct {
	mu    sync.Mutex
	since map[types.NamespacedName]map[string]time.Time // by name, then by cluster
}

// of are the clusters of a name that have been vacant for less than grace, and after how long the first of them no longer is; 0 for
// none. vacant says it of one cluster as it is now.
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
