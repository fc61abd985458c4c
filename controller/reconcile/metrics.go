package reconcile

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// serviceImports has no name of an import in a label: their number would be the number of series.
var serviceImports = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "multicluster_serviceimports",
	Help: "ServiceImports of this cluster, by condition: ready or not_ready. Zero in a process that is not the leader.",
}, []string{"condition"})

var serviceExports = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "multicluster_serviceexports",
	Help: "ServiceExports of this cluster, by condition (Valid, Ready, Conflict) and its status. None in a process that is not the leader.",
}, []string{"condition", "status"})

// importDuration has buckets around the goals: half a second for an export, a second for an endpoint.
var importDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "multicluster_import_duration_seconds",
	Help:    "From the change of a ServiceExport (kind=export) or of an endpoint (kind=endpoints), in whichever cluster, until it was written here.",
	Buckets: prometheus.ExponentialBuckets(0.01, 2, 14),
}, []string{"kind"})

// contestedFields has the few fields of contested.Field in its label.
var contestedFields = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "multicluster_contested_fields_total",
	Help: "Fields that another writer or the API server kept setting back, once for each field of each name and episode.",
}, []string{"field"})

func init() {
	metrics.Registry.MustRegister(serviceImports, serviceExports, importDuration, contestedFields)
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

// readiness is what Ready said last of each import: the metric's source, and the plan's memory where the CRD has no conditions.
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
