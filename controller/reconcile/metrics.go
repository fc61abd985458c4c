package reconcile

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

var buildInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "multicluster_build_info",
	Help: "1, with the version of the controller and of Go.",
}, []string{"version", "goversion"})

// serviceImports has no label with the name of an import: each import would be a series.
var serviceImports = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "multicluster_serviceimports",
	Help: "ServiceImports of this cluster, by condition: ready or not_ready. Zero if this process is not the leader.",
}, []string{"condition"})

var serviceExports = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "multicluster_serviceexports",
	Help: "ServiceExports of this cluster, by condition (Valid, Ready, Conflict) and its status. Only the leader exports it.",
}, []string{"condition", "status"})

// importDuration has buckets around the goals: 0.5 s for an export, 1 s for an endpoint.
var importDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "multicluster_import_duration_seconds",
	Help:    "Time from the change of a ServiceExport (kind=export) or of an endpoint (kind=endpoints), in any cluster, to its write in this cluster.",
	Buckets: prometheus.ExponentialBuckets(0.01, 2, 14),
}, []string{"kind"})

// contestedFields has contested.Field.Label in its label, of which there are few.
var contestedFields = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "multicluster_contested_fields_total",
	Help: "Fields that another writer or the API server kept setting back, counted once per field, name and episode.",
}, []string{"field"})

// usuallyContested are the fields that other writers are known to set back.
var usuallyContested = []string{
	"spec.ips of the ServiceImport", "spec.ipFamilies of the ServiceImport", "spec.type of the ServiceImport", "spec.ports of the ServiceImport",
	"label of the ServiceImport", "annotation of the ServiceImport", "status.clusters of the ServiceImport",
	"condition Ready of the ServiceImport", "condition ClusterPreference of the ServiceImport", "condition NativeName of the ServiceImport",
	"condition EndpointsKept of the ServiceImport", "condition EndpointsProbed of the ServiceImport",
	"condition Valid of the ServiceExport", "condition Ready of the ServiceExport", "condition Conflict of the ServiceExport",
	"spec.ports of the derived Service", "spec.sessionAffinity of the derived Service", "spec.internalTrafficPolicy of the derived Service", "spec.trafficDistribution of the derived Service",
	"spec.ipFamilyPolicy of the derived Service", "spec.type of the derived Service", "status.loadBalancer of the derived Service",
}

func init() {
	metrics.Registry.MustRegister(buildInfo, serviceImports, serviceExports, &readyEndpoints, importDuration, contestedFields)
	for _, field := range usuallyContested {
		contestedFields.WithLabelValues(field) // a counter that begins with 1 has no increase
	}
	for _, kind := range []string{"export", "endpoints"} {
		importDuration.WithLabelValues(kind)
	}
}

// count counts the current conditions of a name's import and export, instead of those before.
func (m *memory) count(ready metav1.Condition, exports []metav1.Condition) {
	m.addToCounts(-1)
	m.ready, m.exports = ready, exports
	m.addToCounts(1)
}

func (m *memory) addToCounts(n float64) {
	if m.ready.Type != "" {
		serviceImports.WithLabelValues(labelOf(m.ready)).Add(n)
	}
	for _, c := range m.exports {
		serviceExports.WithLabelValues(c.Type, string(c.Status)).Add(n)
	}
}

func labelOf(ready metav1.Condition) string {
	if ready.Status == metav1.ConditionTrue {
		return "ready"
	}
	return "not_ready"
}

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
