package reconcile

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// readyEndpoints has the IDs of clusters with ready endpoints in its label. Only slices with the label of
// the controller count, and maxSources clusters.
var readyEndpoints = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "multicluster_endpoints",
	Help: "Ready endpoints in the EndpointSlices that the controller made in this cluster, by the cluster that they are in, without clusters that are not chosen. No series for a cluster without any.",
}, []string{"source_cluster"})

// maxSources limits the series: a user with permission to write EndpointSlices can write some that look like the controller's, until it deletes
// them.
const maxSources = 1000

// endpointTally counts ready endpoints by their clusters. It gets each slice from the cache: a plan does
// not see the slices that it writes, and their events enqueue nothing.
type endpointTally struct {
	mu     sync.Mutex
	latest map[types.NamespacedName]counted // by slice
	sums   map[string]int
}

// counted is what is counted of one slice.
type counted struct {
	source string
	ready  int
}

func newEndpointTally() *endpointTally {
	return &endpointTally{latest: map[types.NamespacedName]counted{}, sums: map[string]int{}}
}

// countEndpoints counts the endpoints of a cache.
func countEndpoints(ctx context.Context, of cache.Cache) error {
	slices, err := of.GetInformer(ctx, &discoveryv1.EndpointSlice{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = slices.AddEventHandler(newEndpointTally().handler())
	return err
}

func (t *endpointTally) handler() toolscache.ResourceEventHandler {
	set := func(object any) {
		if slice, ok := object.(*discoveryv1.EndpointSlice); ok {
			t.set(client.ObjectKeyFromObject(slice), countReady(slice))
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, object any) { set(object) },
		DeleteFunc: func(object any) {
			if key, err := toolscache.DeletionHandlingObjectToName(object); err == nil {
				t.set(key.AsNamespacedName(), counted{})
			}
		},
	}
}

// set replaces what is counted of a slice. The zero value forgets the slice.
func (t *endpointTally) set(key types.NamespacedName, now counted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sums[now.source] == 0 && len(t.sums) >= maxSources {
		now = counted{}
	}
	before := t.latest[key]
	if before == now {
		return
	}
	t.addLocked(before.source, -before.ready)
	t.addLocked(now.source, now.ready)
	if t.latest[key] = now; now.ready == 0 {
		delete(t.latest, key)
	}
}

func (t *endpointTally) addLocked(source string, n int) {
	if n == 0 {
		return
	}
	t.sums[source] += n
	if t.sums[source] == 0 {
		delete(t.sums, source)
		readyEndpoints.DeleteLabelValues(source)
		return
	}
	readyEndpoints.WithLabelValues(source).Set(float64(t.sums[source]))
}

// countReady returns the zero value for a slice without a ready endpoint, for one of somebody else, and
// for one on standby: its cluster is not chosen.
func countReady(slice *discoveryv1.EndpointSlice) counted {
	source := slice.Labels[mcsv1beta1.LabelSourceCluster]
	if source == "" || !ownership.OfSlice(slice) || preference.StandbyOf(slice) != preference.Connected {
		return counted{}
	}
	_, ready := digest.Count(slice)
	if ready == 0 {
		return counted{}
	}
	return counted{source, ready}
}
