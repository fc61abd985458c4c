package reconcile

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/preference"
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

// A user can label slices as the controller does. They make a limited number of series, which go with them.
func TestForgedSlicesMakeFewSeries(t *testing.T) {
	events := newEndpointTally().handler()
	before := testutil.CollectAndCount(readyEndpoints)
	var forged []*discoveryv1.EndpointSlice
	for i := range 2 * maxSources {
		s := sliceOf(fmt.Sprintf("forged-%d", i), mcs.ControllerName, nil)
		s.Name = fmt.Sprintf("forged-%d", i)
		forged = append(forged, s)
		events.OnAdd(s, false)
	}
	if got := testutil.CollectAndCount(readyEndpoints) - before; got != maxSources {
		t.Errorf("%d series, want %d", got, maxSources)
	}
	for _, s := range forged {
		events.OnDelete(s)
	}
	if got := testutil.CollectAndCount(readyEndpoints) - before; got != 0 {
		t.Errorf("%d series are left", got)
	}
}

// The metric is a sum over the slices. What others label is not counted: they could make any number of series.
func TestReadyEndpointsAreCountedByTheirClusters(t *testing.T) {
	tally := newEndpointTally()
	events := tally.handler()
	slice := func(name, source, manager string, ready ...*bool) *discoveryv1.EndpointSlice {
		s := sliceOf(source, manager, ready...)
		s.Name = name
		return s
	}
	before := testutil.CollectAndCount(readyEndpoints)
	counts := func(when string, series int, a, b float64) {
		t.Helper()
		if got := testutil.CollectAndCount(readyEndpoints) - before; got != series {
			t.Errorf("%s: %d series, want %d", when, got, series)
		}
		for source, want := range map[string]float64{"count-a": a, "count-b": b} {
			if got := float64(tally.sums[source]); got != want {
				t.Errorf("%s: %s has %v endpoints, want %v", when, source, got, want)
			}
			if want > 0 && testutil.ToFloat64(readyEndpoints.WithLabelValues(source)) != want {
				t.Errorf("%s: the metric of %s is not %v", when, source, want)
			}
		}
	}
	foo := slice("foo-a", "count-a", mcs.ControllerName, nil, new(true), new(false))
	digest.Keep(foo) // as in the cache
	events.OnAdd(foo, true)
	events.OnAdd(slice("foo-b", "count-b", mcs.ControllerName, nil), false)
	events.OnAdd(slice("foo-c", "count-c", "somebody", nil), false)
	standby := slice("foo-d", "count-d", mcs.ControllerName, nil)
	preference.Disconnect(standby, preference.Off)
	events.OnAdd(standby, false)
	counts("one name", 2, 2, 1)
	events.OnAdd(slice("bar-a", "count-a", mcs.ControllerName, nil), false)
	counts("two names", 2, 3, 1)
	events.OnUpdate(nil, slice("foo-b", "count-b", mcs.ControllerName, new(false)))
	counts("no ready endpoint", 1, 3, 0)
	events.OnUpdate(nil, slice("bar-a", "count-a", "somebody", nil))
	counts("a slice of somebody else's", 1, 2, 0)
	events.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "foo-a", Obj: foo})
	if counts("all gone", 0, 0, 0); len(tally.latest) > 0 || len(tally.sums) > 0 {
		t.Errorf("it remembers %v and %v", tally.latest, tally.sums)
	}
}

// An alert on a counter needs its series before the first event.
func TestContestedFieldsBeginWithZero(t *testing.T) {
	if got := testutil.CollectAndCount(contestedFields); got < len(usuallyContested) {
		t.Errorf("%d series for the fields %q", got, usuallyContested)
	}
}

func TestMetricsAreNamedAsPrometheusAsks(t *testing.T) {
	problems, err := testutil.GatherAndLint(metrics.Registry, "multicluster_build_info", "multicluster_endpoints", "multicluster_contested_fields_total", "multicluster_import_duration_seconds")
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
