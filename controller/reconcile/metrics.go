package reconcile

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
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
	metrics.Registry.MustRegister(buildInfo, serviceImports, serviceExports, readyEndpoints, importDuration, contestedFields)
	for _, field := range usuallyContested {
		contestedFields.WithLabelValues(field) // a counter that begins with 1 has no increase
	}
	for _, kind := range []string{"export", "endpoints"} {
		importDuration.WithLabelValues(kind)
	}
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
