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

func init() { metrics.Registry.MustRegister(serviceImports) }

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
