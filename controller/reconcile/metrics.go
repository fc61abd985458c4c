package reconcile

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/ownership"
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

// readyEndpoints has the IDs of clusters with ready endpoints in its label. Only slices of the controller
// count: otherwise users with permission to write EndpointSlices could make any number of series.
var readyEndpoints = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "multicluster_endpoints",
	Help: "Ready endpoints in the EndpointSlices that the controller made in this cluster, by the cluster that they are in, without clusters that are not chosen. No series for a cluster without any.",
}, []string{"source_cluster"})

// contestedFields has the kinds of contested.Field in its label, which are few.
var contestedFields = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "multicluster_contested_fields_total",
	Help: "Fields that another writer or the API server kept setting back, counted once per field, name and episode.",
}, []string{"field"})

func init() {
	metrics.Registry.MustRegister(buildInfo, serviceImports, serviceExports, readyEndpoints, importDuration, contestedFields)
	for _, kind := range contested.Kinds() {
		contestedFields.WithLabelValues(kind) // a counter that begins with 1 has no increase
	}
	for _, kind := range []string{"export", "endpoints"} {
		importDuration.WithLabelValues(kind)
	}
}

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

// handler returns an event handler for the EndpointSlices of this cluster.
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

// exportTally counts ServiceExports by their conditions.
type exportTally struct {
	mu     sync.Mutex
	latest map[types.NamespacedName][][2]string // condition and status
}

func (t *exportTally) set(key types.NamespacedName, conditions []metav1.Condition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(key)
	if t.latest == nil {
		t.latest = map[types.NamespacedName][][2]string{}
	}
	for _, c := range conditions {
		labels := [2]string{c.Type, string(c.Status)}
		t.latest[key] = append(t.latest[key], labels)
		serviceExports.WithLabelValues(labels[:]...).Inc()
	}
}

func (t *exportTally) forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(key)
}

func (t *exportTally) forgetLocked(key types.NamespacedName) {
	for _, labels := range t.latest[key] {
		serviceExports.WithLabelValues(labels[:]...).Dec()
	}
	delete(t.latest, key)
}

// readiness is the last condition Ready of each import. It is the source of the metric. If the CRD
// has no conditions, the plan uses it as the previous condition.
type readiness struct {
	mu     sync.Mutex
	latest map[types.NamespacedName]metav1.Condition
}

func (r *readiness) of(key types.NamespacedName) metav1.Condition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest[key]
}

func (r *readiness) set(key types.NamespacedName, ready metav1.Condition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest == nil {
		r.latest = map[types.NamespacedName]metav1.Condition{}
	}
	r.forgetLocked(key)
	r.latest[key] = ready
	serviceImports.WithLabelValues(labelOf(ready)).Inc()
}

func (r *readiness) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(key)
}

func (r *readiness) forgetLocked(key types.NamespacedName) {
	if had, ok := r.latest[key]; ok {
		serviceImports.WithLabelValues(labelOf(had)).Dec()
		delete(r.latest, key)
	}
}

func labelOf(ready metav1.Condition) string {
	if ready.Status == metav1.ConditionTrue {
		return "ready"
	}
	return "not_ready"
}
