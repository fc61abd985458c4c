package multicluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterset-dns/multicluster/plugin/watch"
)

// The gauges are sums: two watches add up, and one that ended takes back what it had added.
func TestGaugesAreSumsOverTheWatches(t *testing.T) {
	expect := func(when string, watches, synced, imports, endpoints float64) {
		t.Helper()
		for gauge, want := range map[prometheus.Gauge]float64{watchesGauge: watches, syncedGauge: synced, importsGauge: imports, endpointsGauge: endpoints} {
			if got := testutil.ToFloat64(gauge); got != want {
				t.Errorf("%s: %s is %v, want %v", when, gauge.Desc(), got, want)
			}
		}
	}
	var a, b observer
	a.began()
	b.began()
	expect("two watches have begun", 2, 0, 0, 0)
	a.Published(3, 0, false)
	expect("one has its imports only", 2, 0, 3, 0)
	a.Published(3, 10, true)
	b.Published(1, 0, true)
	expect("both have synced", 2, 2, 4, 10)
	a.Published(2, 12, true)
	expect("one has changed", 2, 2, 3, 12)
	a.ended()
	expect("that one has ended", 1, 1, 1, 0)
	b.ended()
	expect("the other too", 0, 0, 0, 0)
}

func TestProblemsAreCounted(t *testing.T) {
	var o observer
	count := invalidCount.WithLabelValues("ServiceImport", "ip")
	before := testutil.ToFloat64(count)
	o.Problems("ServiceImport", "default/foo", []watch.Problem{{Field: "ip", Detail: `spec.ips has "nonsense", want an IP address`}}, false)
	if got := testutil.ToFloat64(count) - before; got != 1 {
		t.Errorf("counted %v, want 1", got)
	}
	o.Failed("serviceimports", errors.New("no route to host"))
	o.Recovered("serviceimports")
	o.Absent("serviceimports")
}

func TestMetricsAreNamedAsPrometheusAsks(t *testing.T) {
	var names []string
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "coredns_multicluster_") {
			names = append(names, f.GetName())
		}
	}
	if len(names) < 4 {
		t.Fatalf("found only %v", names)
	}
	problems, err := testutil.GatherAndLint(prometheus.DefaultGatherer, names...)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
