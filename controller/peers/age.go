package peers

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/merge"
)

// The oldest export of a name decides its type and its ports (KEP-1645), and each cluster states the age of its own. A
// hostile one would state that it was first. What this cluster has seen to be absent was not there: an export that
// appears in a peer that has been read without a pause, with an age from before, is as old as its
// appearance. An export that is there gets no older. Honest clusters state nothing like that.

const (
	// settledAfter is how long a peer must be read without a pause until everything that was there before has arrived.
	settledAfter = 5 * time.Minute
	// skew is how far the clocks of two clusters can differ, the loss of a connection that is not noticed included.
	skew = 5 * time.Minute
)

// watched is since when a peer is read without a pause, and until when all of its exports are known. The zero value
// knows nothing: the ages of the first list are believed.
type watched struct{ since, known, noted time.Time }

// note notes whether the peer is read now. It is called at least every idle.
func (w *watched) note(read bool, now time.Time) {
	switch {
	case !read:
		w.since = time.Time{}
	case w.since.IsZero(), now.Sub(w.noted) > settledAfter/5: // or this process was suspended
		w.since = now
	case now.Sub(w.since) >= settledAfter:
		w.known = now.Add(-settledAfter)
	}
	w.noted = now
}

// aged is the table of the ServiceExports of a peer.
type aged struct {
	exports
	*watched
	now func() time.Time
}

func (a aged) put(id types.NamespacedName, value *merge.Export, changed []types.NamespacedName) []types.NamespacedName {
	switch was := a.exports[id]; {
	case was == nil && value.Created.Time.Before(a.known.Add(-skew)):
		value.Created = metav1.NewTime(a.now().Truncate(time.Second))
	case was != nil && value.Created.Before(&was.Created):
		value.Created = was.Created
	}
	return a.exports.put(id, value, changed)
}
