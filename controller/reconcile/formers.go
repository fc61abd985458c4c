package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// formerFor is how long the addresses of a deleted import are remembered. A garbage collector frees
// them meanwhile, and another Service can get them.
const formerFor = time.Minute

// formers are the addresses of imports that were deleted a moment ago. An import that is replaced by
// force, or that a tool creates again, has no record of them. Without its address, it would fail for
// each client that has cached the answer.
type formers struct {
	mu  sync.Mutex
	all map[types.NamespacedName]former
}

type former struct {
	uid  types.UID // of the import
	ips  string    // its record
	gone time.Time // when it was first missed; zero while it exists
}

// of returns the record of the import that had this name before, or "" if there was none a moment ago,
// and when to ask again, 0 for never. It remembers the record of an import that has one.
func (f *formers) of(key types.NamespacedName, imp *mcsv1beta1.ServiceImport, now time.Time) (ips string, again time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if imp != nil && imp.Annotations[mcs.AnnotationClusterIPs] != "" {
		f.remember(key, imp)
		return "", 0
	}
	last, known := f.all[key]
	if !known {
		return "", 0
	}
	if last.gone.IsZero() {
		last.gone = now
		f.all[key] = last
	}
	left, removed := formerFor-now.Sub(last.gone), imp != nil && imp.UID == last.uid // A user has removed the record.
	if left <= 0 || removed {
		delete(f.all, key)
		return "", 0
	}
	return last.ips, left
}

func (f *formers) remember(key types.NamespacedName, imp *mcsv1beta1.ServiceImport) {
	record := imp.Annotations[mcs.AnnotationClusterIPs]
	if len(record) > longestRecord {
		delete(f.all, key)
		return
	}
	if f.all == nil {
		f.all = map[types.NamespacedName]former{}
	}
	f.all[key] = former{uid: imp.UID, ips: record}
}

// longestRecord is more than two IPv6 addresses need. A user can write any text to the annotation.
const longestRecord = 128
