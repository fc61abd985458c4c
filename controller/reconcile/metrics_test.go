package reconcile

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// sliceOf has endpoints with these values of ready; nil is ready.
func sliceOf(source, manager string, ready ...*bool) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{mcsv1beta1.LabelSourceCluster: source, discoveryv1.LabelManagedBy: manager},
	}}
	for _, r := range ready {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: r}})
	}
	return slice
}

// The metric is a sum over the names. What others label is not counted: they could make any number of series.
func TestReadyEndpointsAreCountedByTheirClusters(t *testing.T) {
	var tally endpointTally
	foo, bar := types.NamespacedName{Name: "foo"}, types.NamespacedName{Name: "bar"}
	counts := func(when string, a, b float64) {
		t.Helper()
		for source, want := range map[string]float64{"count-a": a, "count-b": b} {
			if got := testutil.ToFloat64(readyEndpoints.WithLabelValues(source)); got != want {
				t.Errorf("%s: %s has %v endpoints, want %v", when, source, got, want)
			}
			if want == 0 {
				readyEndpoints.DeleteLabelValues(source) // made by this check
			}
		}
	}
	series := func() int { return testutil.CollectAndCount(readyEndpoints) }
	before := series()
	tally.set(foo, []*discoveryv1.EndpointSlice{sliceOf("count-a", mcs.ControllerName, nil, new(true), new(false)), sliceOf("count-b", mcs.ControllerName, nil), sliceOf("count-c", "somebody", nil)})
	counts("one name", 2, 1)
	tally.set(bar, []*discoveryv1.EndpointSlice{sliceOf("count-a", mcs.ControllerName, nil)})
	counts("two names", 3, 1)
	tally.set(foo, []*discoveryv1.EndpointSlice{sliceOf("count-a", mcs.ControllerName, nil, nil, nil)})
	counts("a dead cluster", 4, 0)
	tally.set(foo, nil)
	counts("a name without slices", 1, 0)
	tally.set(bar, nil)
	if got := series(); got != before || len(tally.latest) > 0 || len(tally.sums) > 0 {
		t.Errorf("%d series more than before, and it remembers %v and %v", got-before, tally.latest, tally.sums)
	}
}

// An alert on a counter needs its series before the first event.
func TestContestedFieldsBeginWithZero(t *testing.T) {
	if got := testutil.CollectAndCount(contestedFields); got < len(contested.Kinds()) || !slices.Contains(contested.Kinds(), string(contested.FieldIPs)) {
		t.Errorf("%d series for the kinds %q", got, contested.Kinds())
	}
}

func TestMetricsAreNamedAsPrometheusAsks(t *testing.T) {
	problems, err := testutil.GatherAndLint(metrics.Registry, "multicluster_build_info", "multicluster_endpoints", "multicluster_contested_fields_total", "multicluster_import_duration_seconds")
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
