package multicluster

import (
	"bytes"
	"errors"
	"fmt"
	golog "log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/time/rate"

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

// A server that has never reached its API server has the time 0, and the worst of several watches counts.
func TestAServerWithoutAnAPIServerIsNotUp(t *testing.T) {
	reading(t, kubeconfig(t, "a"), kubeconfig(t, "b"))
	const want = `
# HELP coredns_multicluster_watch_last_contact_timestamp_seconds When the API server last answered about a resource, in seconds since 1970, or 0 for never. An idle watch gets a bookmark each minute or two. Of several watches, the oldest.
# TYPE coredns_multicluster_watch_last_contact_timestamp_seconds gauge
coredns_multicluster_watch_last_contact_timestamp_seconds{resource="endpointslices"} 0
coredns_multicluster_watch_last_contact_timestamp_seconds{resource="serviceimports"} 0
# HELP coredns_multicluster_watch_up 1 while the list and the watch of a resource work, otherwise 0. Of several watches, the worst.
# TYPE coredns_multicluster_watch_up gauge
coredns_multicluster_watch_up{resource="endpointslices"} 0
coredns_multicluster_watch_up{resource="serviceimports"} 0
`
	if err := testutil.CollectAndCompare(&live, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestTheWorstWatchCounts(t *testing.T) {
	old, recent := time.Unix(1, 0), time.Unix(2, 0)
	for _, test := range []struct{ a, b, want watch.Health }{
		{watch.Health{Up: true, Contact: recent}, watch.Health{Up: true, Contact: old}, watch.Health{Up: true, Contact: old}},
		{watch.Health{Up: true, Contact: old}, watch.Health{Contact: recent}, watch.Health{Contact: old}},
		{watch.Health{}, watch.Health{Up: true, Contact: recent}, watch.Health{}},
	} {
		if got, back := watch.Worse(test.a, test.b), watch.Worse(test.b, test.a); got != test.want || back != test.want {
			t.Errorf("%+v and %+v: %+v and %+v", test.a, test.b, got, back)
		}
	}
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

// Users with permission to write objects decide on the number of bad objects and on their texts,
// but not on the size of the log.
func TestAFloodOfBadObjectsLeavesTheLogReadable(t *testing.T) {
	var written bytes.Buffer
	golog.SetOutput(&written)
	t.Cleanup(func() { golog.SetOutput(os.Stderr) })
	var o observer
	nine := make([]watch.Problem, 9)
	for i := range nine {
		nine[i] = watch.Problem{Field: "flood", Detail: fmt.Sprintf("problem %d", i)}
	}
	began, before := time.Now(), testutil.ToFloat64(invalidCount.WithLabelValues("ServiceImport", "flood"))
	for i := range 10_000 {
		o.Problems("ServiceImport", fmt.Sprintf("evil/bad-%d", i), nine, i%2 == 1)
	}
	most := 2 * (50 + 1 + int(time.Since(began)/(3*time.Second))) // each with a line about those that were left out
	if lines := strings.Count(written.String(), "\n"); lines == 0 || lines > most {
		t.Errorf("%d lines, want at most %d", lines, most)
	}
	if got := testutil.ToFloat64(invalidCount.WithLabelValues("ServiceImport", "flood")) - before; got != 90_000 {
		t.Errorf("counted %v problems", got)
	}
}

func TestLinesThatAreLeftOutAreCounted(t *testing.T) {
	l := limitedLines{all: rate.NewLimiter(0, 1), share: 1}
	if left, ok := l.allow("a"); !ok || left != 0 {
		t.Error("the first line is left out")
	}
	for range 3 {
		if _, ok := l.allow("a"); ok {
			t.Error("a line too many")
		}
	}
	l.all, l.of = rate.NewLimiter(0, 1), nil
	if left, ok := l.allow("a"); !ok || left != 3 {
		t.Errorf("%d lines were left out, want 3", left)
	}
}

// A tenant's flood of bad objects used all lines, and a neighbour's bad object was never in the log.
func TestOneNamespaceLeavesLinesToOthers(t *testing.T) {
	l := limitedLines{all: rate.NewLimiter(0, 50), share: 5}
	lines := map[string]int{}
	for i := range 1000 {
		for _, namespace := range []string{"flood", fmt.Sprintf("of-%d", i)} {
			if i%50 > 0 && namespace != "flood" {
				continue
			}
			if _, ok := l.allow(namespace); ok {
				lines[namespace]++
			}
		}
	}
	if lines["flood"] != 10 || len(lines) != 21 {
		t.Errorf("lines: %v; want 10 of the flood, and one of each of 20 others", lines)
	}
	for i := range 10 * maxNamespaces {
		l.allow(fmt.Sprint("many-", i))
	}
	if len(l.of) > maxNamespaces {
		t.Errorf("%d namespaces are remembered", len(l.of))
	}
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
