package reconcile

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// endpointCount counts ready endpoints by their clusters, whenever somebody reads the metrics. Its label has the IDs of
// clusters with ready endpoints.
type endpointCount struct{ cache atomic.Pointer[endpointCache] }

type endpointCache struct {
	client.Reader
	ctx context.Context //nolint:containedctx // of the manager: a prometheus.Collector has none
}

var readyEndpoints endpointCount

const endpointsHelp = "Ready endpoints in the EndpointSlices that the controller made in this cluster, by the cluster that they are in, without clusters that are not chosen. No series for a cluster without any."

var endpointsDesc = prometheus.NewDesc("multicluster_endpoints", endpointsHelp, []string{"source_cluster"}, nil)

const (
	// maxSources limits the series: a user with permission to write EndpointSlices can write some that look like
	// the controller's, until it deletes them.
	maxSources = 1000
	// countWithin is for a cache that is not synced yet.
	countWithin = time.Second
)

// Describe implements prometheus.Collector.
func (*endpointCount) Describe(all chan<- *prometheus.Desc) { all <- endpointsDesc }

// Collect implements prometheus.Collector.
func (e *endpointCount) Collect(all chan<- prometheus.Metric) {
	of := e.cache.Load()
	if of == nil {
		return
	}
	ctx, cancel := context.WithTimeout(of.ctx, countWithin)
	defer cancel()
	var list discoveryv1.EndpointSliceList
	if of.List(ctx, &list, client.MatchingLabels{discoveryv1.LabelManagedBy: mcs.ControllerName}, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	sums := map[string]int{}
	for i := range list.Items {
		slice := &list.Items[i]
		source := slice.Labels[mcsv1beta1.LabelSourceCluster]
		if _, ready := digest.Count(slice); ready > 0 && source != "" && preference.StandbyOf(slice) == preference.Connected {
			sums[source] += ready
		}
	}
	sources := slices.Sorted(maps.Keys(sums))
	for _, source := range sources[:min(len(sources), maxSources)] {
		all <- prometheus.MustNewConstMetric(endpointsDesc, prometheus.GaugeValue, float64(sums[source]), source)
	}
}
