package reconcile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// slicesOnly is a cache with slices, of which it returns those with the labels.
type slicesOnly struct {
	client.Reader
	all []discoveryv1.EndpointSlice
}

func (c slicesOnly) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	for _, slice := range c.all {
		if o.LabelSelector.Matches(labels.Set(slice.Labels)) {
			list.(*discoveryv1.EndpointSliceList).Items = append(list.(*discoveryv1.EndpointSliceList).Items, slice)
		}
	}
	return nil
}

// countsOf returns the metric for a cache with these slices.
func countsOf(t *testing.T, all ...*discoveryv1.EndpointSlice) *endpointCount {
	c := slicesOnly{}
	for _, slice := range all {
		c.all = append(c.all, *slice)
	}
	e := new(endpointCount)
	e.cache.Store(&endpointCache{c, t.Context()})
	return e
}

// A user can label slices as the controller does. They make a limited number of series.
func TestForgedSlicesMakeFewSeries(t *testing.T) {
	var forged []*discoveryv1.EndpointSlice
	for i := range 2 * maxSources {
		forged = append(forged, sliceOf(fmt.Sprintf("forged-%d", i), mcs.ControllerName, nil))
	}
	if got := testutil.CollectAndCount(countsOf(t, forged...)); got != maxSources {
		t.Errorf("%d series, want %d", got, maxSources)
	}
}

// The metric is a sum over the slices. What others label is not counted: they could make any number of series.
func TestReadyEndpointsAreCountedByTheirClusters(t *testing.T) {
	foo := sliceOf("count-a", mcs.ControllerName, nil, new(true), new(false))
	digest.Keep(foo) // as in the cache
	standby := sliceOf("count-d", mcs.ControllerName, nil)
	preference.Disconnect(standby, preference.Off)
	e := countsOf(t, foo, sliceOf("count-b", mcs.ControllerName, nil), sliceOf("count-c", "somebody", nil), standby,
		sliceOf("count-a", mcs.ControllerName, nil), sliceOf("count-e", mcs.ControllerName, new(false)), sliceOf("", mcs.ControllerName, nil))
	want := `# HELP multicluster_endpoints ` + endpointsHelp + `
# TYPE multicluster_endpoints gauge
multicluster_endpoints{source_cluster="count-a"} 3
multicluster_endpoints{source_cluster="count-b"} 1
`
	if err := testutil.CollectAndCompare(e, strings.NewReader(want)); err != nil {
		t.Error(err)
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
